"""The servers' configurations, each as its manual advises for one worker.

What they have in common: one core, answers in memory (nginx: in the page cache), an access log in
Combined, idle connections kept for as long as the benchmark may need, an origin that is kept
connected, and a header that says how the cache answered.
"""

NIGHTWATT = """\
listen = ["127.0.0.1:{port}"]
state_dir = "{folder}/state"
access_log = "{folder}/access.log"

[limits]
connections = 16384
connections_per_client = 0
idle_timeout = "15m"

[tls]
listen = ["127.0.0.1:{tls_port}"]

[[tls.certificate]]
chain = "{chain}"
key = "{key}"

[scenario]
policy = "always-on"

[[site]]
name = "front"
origin = "http://127.0.0.1:{origin}"

[site.power.simulated]
starts_up = true
"""

# sendfile with tcp_nopush and tcp_nodelay is what nginx's admin guide advises for serving content.
# open_file_cache serves proxy_cache too. One worker needs no accept mutex (off by default). The lock for concurrent
# misses stays off (its default): it would send uncacheable answers one after the other.
NGINX = """\
{user}worker_processes 1;
worker_rlimit_nofile {nofile};
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
daemon off;

events {{
    worker_connections 16384;
    multi_accept on;
}}

http {{
    include /etc/nginx/mime.types;
    server_tokens off;
    {sending}
    tcp_nodelay on;
    keepalive_timeout 15m;
    keepalive_requests 1000000000;
    open_file_cache max=1024 inactive=15m;
    open_file_cache_valid 15m;
    access_log {folder}/access.log combined{log_buffer};

    proxy_temp_path {folder}/proxy;
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_cache_path {folder}/cache levels=1:2 keys_zone=front:10m max_size=512m
                     inactive=1d use_temp_path=off;

    upstream origin {{
        server 127.0.0.1:{origin};
        keepalive 1024;
        keepalive_requests 1000000000;
        keepalive_timeout 15m;
    }}

    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen 127.0.0.1:{tls_port} ssl http2 backlog=4096;
        ssl_certificate {chain};
        ssl_certificate_key {key};
        ssl_protocols TLSv1.2 TLSv1.3;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_cache front;
        add_header Cache-Status "nginx; $upstream_cache_status";
        location / {{
            proxy_pass http://origin;
        }}
{more}    }}
}}
"""

NGINX_AS_ADVISED = {"sending": "sendfile on; tcp_nopush on;", "more": ""}

# What served nginx best here, size by size, whether or not anybody would configure it so: small
# answers are cheaper read and written than corked and spliced, large ones are cheapest without cork.
NGINX_AT_ITS_BEST = {
    "sending": "sendfile off;",
    "more": """\
        location = /hit256 {
            sendfile on;
            tcp_nopush off;
            proxy_pass http://origin;
        }
""",
}

VARNISH = """\
vcl 4.1;

backend default {{
    .host = "127.0.0.1";
    .port = "{origin}";
}}

sub vcl_deliver {{
    if (obj.hits > 0) {{
        set resp.http.Cache-Status = "varnish; hit";
    }} else {{
        set resp.http.Cache-Status = "varnish; fwd=miss";
    }}
}}
"""

# One pool of threads for one core; its bounds (100 to 5000 threads) are the defaults, which the
# manual says suit most. The default of timeout_idle, 5 s, would close idle connections.
VARNISH_ARGUMENTS = [
    "-F",
    "-j", "none",
    "-n", "{folder}",
    "-a", "127.0.0.1:{port}",
    "-T", "none",
    "-f", "{folder}/front.vcl",
    "-s", "default=malloc,512m",
    "-p", "thread_pools=1",
    "-p", "timeout_idle=900",
    "-p", "listen_depth=4096",
]  # fmt: skip

VARNISHNCSA_ARGUMENTS = ["-n", "{folder}", "-a", "-w", "{log}"]
