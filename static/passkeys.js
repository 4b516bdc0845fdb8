// Make and use passkeys: each form with `data-passkey` asks that path for the options, and sends what the browser answers.
const methods = { create: "parseCreationOptionsFromJSON", get: "parseRequestOptionsFromJSON" };

for (const form of document.querySelectorAll("form[data-passkey]")) {
  const kind = form.dataset.kind;
  const parse = window.PublicKeyCredential?.[methods[kind]];
  if (!parse) continue;
  form.hidden = false;
  const problem = form.querySelector(".problem");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.textContent = "";
    try {
      const reply = await fetch(form.dataset.passkey, { headers: { Accept: "application/json" } });
      if (!reply.ok) throw new Error((await reply.json()).error);
      const { options, ticket } = await reply.json();
      const publicKey = parse.call(window.PublicKeyCredential, options);
      const credential = await navigator.credentials[kind]({ publicKey });
      form.elements.ticket.value = ticket;
      form.elements.answer.value = JSON.stringify(credential);
      form.submit();
    } catch (error) {
      problem.textContent = error.name === "NotAllowedError" ? "The browser got no passkey. Try again." : String(error.message || error);
    }
  });
}
