-- /etc/apache2/nightwatt.lua: may a request go to its server? It waits here while that wakes.
local http = require "socket.http"
local ltn12 = require "ltn12"

local gate = "http://127.0.0.1:9181/ask"
-- By these nightwatt tells people from crawlers, and pages from what programs ask for.
local told = { "User-Agent", "Accept", "Referer", "Sec-Fetch-Dest" }

http.TIMEOUT = 130 -- more than nightwatt's `limits.hold`

function ask(r)
  -- Not `unparsed_uri`: `/.nightwatt/../page` goes to the server.
  if r.uri:find("/.nightwatt/", 1, true) == 1 then
    return apache2.DECLINED
  end
  local headers = {
    ["X-Forwarded-For"] = r.useragent_ip,
    ["X-Forwarded-Method"] = r.method,
    ["X-Forwarded-Uri"] = r.unparsed_uri,
    ["X-Forwarded-Host"] = r.headers_in["Host"] or "",
  }
  for _, name in ipairs(told) do
    headers[name] = r.headers_in[name]
  end
  local body = {}
  local asked, status, answer = http.request {
    url = gate, headers = headers, sink = ltn12.sink.table(body), redirect = false,
  }
  if not asked then
    r:err("nightwatt cannot be asked: " .. tostring(status))
    return 503
  end
  if status == 204 then
    return apache2.DECLINED
  end
  r.status = status
  for name, value in pairs(answer) do
    if name == "content-type" then
      r.content_type = value
    elseif name ~= "content-length" and name ~= "connection" and name ~= "date" then
      r.err_headers_out[name] = value
    end
  end
  r:puts(table.concat(body))
  return apache2.DONE
end
