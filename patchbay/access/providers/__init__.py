"""Sign-in of people with the identity providers of the operator, by OpenID Connect."""
