-- /etc/haproxy/nightwatt.lua: may a request go to its server? It waits here while that wakes.
local gate = "http://127.0.0.1:9181/ask"
-- By these nightwatt tells people from crawlers, and pages from what programs ask for.
local told = { "user-agent", "accept", "referer", "sec-fetch-dest" }

core.register_action("nightwatt", { "http-req" }, function(txn)
  local has = txn.http:req_get_headers()
  local headers = {
    ["x-forwarded-for"] = { txn.f:src() },
    ["x-forwarded-method"] = { txn.f:method() },
    ["x-forwarded-uri"] = { txn.f:pathq() },
    ["x-forwarded-host"] = { has["host"] and has["host"][0] or "" },
  }
  for _, name in ipairs(told) do
    if has[name] then
      headers[name] = { has[name][0] }
    end
  end
  -- Milliseconds; more than nightwatt's `limits.hold`.
  local answer = core.httpclient():get({ url = gate, headers = headers, timeout = 130000 })
  if answer.status == 204 then
    txn:set_var("txn.nightwatt_ok", true)
    return
  end
  local reply = txn:reply({ status = answer.status })
  for name, values in pairs(answer.headers or {}) do
    if name ~= "content-length" and name ~= "connection" and name ~= "transfer-encoding" then
      for _, value in pairs(values) do
        reply:add_header(name, value)
      end
    end
  end
  reply:set_body(answer.body or "")
  txn:done(reply)
end)
