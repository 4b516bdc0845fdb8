-- The load: POSTs one JSON-RPC request after the other, each with an id of its own, and looks at every answer.
--
--   wrk ... -s calls.lua URL -- <body before the id> <body after it> <text of a right answer> <header: value> ...
--
-- Writes one line of JSON at the end: requests, microseconds, p50 and p99 in microseconds, errors, wrong answers.

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(arguments)
  before, after, expected = arguments[1], arguments[2], arguments[3]
  headers = {}
  for place = 4, #arguments do
    local name, value = arguments[place]:match("^([^:]+): (.*)$")
    headers[name] = value
  end
  count, wrong = 0, 0
end

function request()
  count = count + 1
  return wrk.format("POST", nil, headers, before .. count .. after)
end

function response(status, _, body)
  if status ~= 200 or not body:find(expected, 1, true) then wrong = wrong + 1 end
end

function done(summary, latency)
  local bad = 0
  for _, thread in ipairs(threads) do bad = bad + thread:get("wrong") end
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "microseconds": %d, "p50": %d, "p99": %d, "errors": %d, "wrong": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.timeout, bad))
end
