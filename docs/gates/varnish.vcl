vcl 4.1;

import std;

# Without a probe: that would keep the server awake, or find it dead.
backend blog {
    .host = "10.0.0.5";
    .port = "8080";
}

backend nightwatt {
    .host = "127.0.0.1";
    .port = "9181";
    .first_byte_timeout = 130s; # more than nightwatt's `limits.hold`
}

sub vcl_recv {
    if (req.restarts == 0) {
        # What a client says of itself is not believed.
        unset req.http.Nightwatt;
        unset req.http.X-Forwarded-Host;
        # A body is needed twice: for the question, which does without it, and for the server.
        if (req.method != "GET" && req.method != "HEAD" && !std.cache_req_body(1MB)) {
            return (synth(413));
        }
    }
    # The waiting page asks here whether the server is awake.
    if (req.url ~ "^/\.nightwatt/") {
        set req.backend_hint = nightwatt;
        set req.http.Nightwatt = "go";
        return (pass);
    }
    set req.backend_hint = blog;
    # By itself Varnish would pipe methods that it does not know, past the question.
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
}

# What Varnish has not, only the server has: may the request go there? It is asked by a request of its
# own to nightwatt, and started again if it may.
sub vcl_miss {
    if (!req.http.Nightwatt) {
        return (pass);
    }
}

sub vcl_pass {
    if (!req.http.Nightwatt) {
        set req.http.Nightwatt = "ask";
        set req.backend_hint = nightwatt;
    }
}

sub vcl_backend_fetch {
    if (bereq.http.Nightwatt == "ask") {
        set bereq.http.X-Forwarded-Method = bereq.method;
        set bereq.http.X-Forwarded-Uri = bereq.url;
        set bereq.method = "GET";
        set bereq.url = "/ask";
        unset bereq.body;
    }
    unset bereq.http.Nightwatt;
}

sub vcl_deliver {
    if (req.http.Nightwatt == "ask" && resp.status == 204) {
        set req.http.Nightwatt = "go";
        return (restart);
    }
}
