-- wrk's figures as one line of JSON, because what it prints for people is rounded.
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    'JSON {"requests": %d, "seconds": %.6f, "bytes": %d, "errors": %d, "wrong_status": %d}\n',
    summary.requests, summary.duration / 1e6, summary.bytes,
    e.connect + e.read + e.write + e.timeout, e.status))
end
