//! The formats that are known: their names, and how lines of each look.

use std::fmt;

/// A format of access logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `client ident user [time] "request" status bytes`.
    Common,
    /// Common, and ` "referer" "agent"`: Apache's, nginx's default, ingress-nginx's, Traefik's text;
    /// with the virtual host between size and referer, that of IONOS.
    Combined,
    /// The virtual host, and Combined or Common: Apache's `vhost_combined`.
    VhostCombined,
    /// Caddy's JSON.
    Caddy,
    /// Traefik's JSON.
    Traefik,
    /// W3C extended, with `#Fields` lines: IIS, `CloudFront`.
    W3c,
    /// Nginx Proxy Manager's.
    Npm,
    /// `HAProxy`'s HTTP format.
    Haproxy,
    /// Of Amazon's application load balancer.
    Alb,
    /// Of Amazon's classic load balancer.
    Elb,
    /// Of Amazon's object store.
    S3,
    /// Squid's own.
    Squid,
    /// uWSGI's own.
    Uwsgi,
    /// Cloudflare's Logpush, JSON.
    Cloudflare,
    /// The Elastic Common Schema, JSON.
    Ecs,
    /// JSON whose keys say what they hold: nginx's `escape=json`.
    Json,
    /// As a [`Pattern`](crate::Pattern) describes it.
    Custom,
}

/// A row of the table of formats.
pub(crate) struct Preset {
    pub(crate) format: Format,
    /// What `Format::from_str` takes; the first is the format's own.
    pub(crate) names: &'static [&'static str],
    /// How lines of text look, as nginx's `log_format` has it. Common and its kin are read by
    /// [`clf`](crate::clf), so theirs only tell where a line differs.
    pub(crate) layouts: &'static [&'static str],
}

/// Every format.
pub(crate) const PRESETS: [Preset; 16] = [
    preset(
        Format::Common,
        &["common"],
        &[r#"$remote_addr $ident $remote_user [$time_local] "$request" $status $bytes_sent"#],
    ),
    preset(
        Format::Combined,
        &["combined", "nginx", "apache", "ingress-nginx", "ionos", "traefik-clf"],
        &[
            r#"$remote_addr $ident $remote_user [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent""#,
        ],
    ),
    preset(
        Format::VhostCombined,
        &["vcombined"],
        &[
            r#"$vhost $remote_addr $ident $remote_user [$time_local] "$request" $status $bytes_sent"#,
        ],
    ),
    preset(Format::Caddy, &["caddy"], &[]),
    preset(Format::Traefik, &["traefik"], &[]),
    preset(Format::W3c, &["w3c", "iis", "cloudfront"], &[]),
    preset(
        Format::Npm,
        &["npm", "nginx-proxy-manager"],
        &[
            r#"[$time_local] $cache $upstream $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $bytes_sent] [Gzip $gzip] [Sent-to $server] "$http_user_agent" "$http_referer""#,
            r#"[$time_local] $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $bytes_sent] [Gzip $gzip] "$http_user_agent" "$http_referer""#,
        ],
    ),
    preset(
        Format::Haproxy,
        &["haproxy"],
        &[
            r#"$remote_addr [$nw_time] $frontend $backend $timers $status $bytes_sent $cookie $cookie $state $connections $nw_captures "$request""#,
        ],
    ),
    preset(
        Format::Alb,
        &["alb", "aws-alb"],
        &[
            r#"$type $nw_time $elb $remote_addr $target $time $time $time $status $status_of_target $received $bytes_sent "$request" "$http_user_agent""#,
        ],
    ),
    preset(
        Format::Elb,
        &["elb", "aws-elb"],
        &[
            r#"$nw_time $elb $remote_addr $target $time $time $time $status $status_of_target $received $bytes_sent "$request" "$http_user_agent""#,
            r#"$nw_time $elb $remote_addr $target $time $time $time $status $status_of_target $received $bytes_sent "$request""#,
        ],
    ),
    preset(
        Format::S3,
        &["s3", "aws-s3"],
        &[
            r#"$owner $bucket [$time_local] $remote_addr $requester $id $operation $key "$request" $status $error $bytes_sent $object_size $total $turn_around "$http_referer" "$http_user_agent""#,
        ],
    ),
    preset(
        Format::Squid,
        &["squid"],
        &[
            r"$nw_time  $elapsed $remote_addr $code/$status $bytes_sent $request_method $request_uri $remote_user $hierarchy/$server",
        ],
    ),
    preset(
        Format::Uwsgi,
        &["uwsgi"],
        &[
            r"[pid: $pid|app: $app|req: $count] $remote_addr ($remote_user) {$variables} [$nw_time] $request_method $request_uri => generated $bytes_sent bytes in $elapsed $unit ($server_protocol $status)",
        ],
    ),
    preset(Format::Cloudflare, &["cloudflare"], &[]),
    preset(Format::Ecs, &["ecs"], &[]),
    preset(Format::Json, &["json", "nginx-json"], &[]),
];

const fn preset(
    format: Format,
    names: &'static [&'static str],
    layouts: &'static [&'static str],
) -> Preset {
    Preset { format, names, layouts }
}

impl Format {
    /// Whether lines of it are read by [`clf`](crate::clf).
    pub(crate) const fn is_common(self) -> bool {
        matches!(self, Self::Common | Self::Combined | Self::VhostCombined)
    }

    /// All names of formats, for help and errors.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().flat_map(|preset| preset.names.iter().copied())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = PRESETS.iter().find(|preset| preset.format == *self);
        f.pad(own.map_or("custom", |preset| preset.names[0]))
    }
}
