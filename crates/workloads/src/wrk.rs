//! wrk, and wrk2, which prints the same.

use crate::error::ReadError;
use crate::number::{BINARY, BYTES, DECIMAL, amount, count, seconds, sized, time};
use crate::outcome::Better::{Higher, Lower, Neither};
use crate::outcome::{Outcome, Percentile, unit};
use crate::output::Output;
use crate::text::{after, line_only, word_after};
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "wrk",
    about: "answers of a web server that is asked again at once",
    example: "wrk -t 4 -c 64 -d 60s --latency http://10.0.0.2/",
    main: "requests_per_second",
    reader: read,
};

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let text = output.stdout;
    let line =
        line_only(text, " requests in ")?.and_then(|line| line.trim().split_once(" requests in "));
    let (done, rest) =
        line.ok_or_else(|| ReadError::missing("line `.. requests in ..`", output))?;
    let done = count("requests", done)?;
    if done == 0 {
        return Err(match after(text, "Socket errors:") {
            Some(errors) => ReadError::failed(&format!("Socket errors: {errors}")),
            None => ReadError::no_operations("request", output),
        });
    }
    let mut outcome = Outcome::default();
    outcome.operations(done, "requests");
    let took = time("time of the run", rest.split(',').next().unwrap_or_default())?;
    outcome.duration = Some(seconds("time of the run", took)?);
    let rate = after(text, "Requests/sec:")
        .ok_or_else(|| ReadError::missing("line `Requests/sec:`", output))?;
    outcome.add("requests_per_second", amount("Requests/sec", rate)?, unit::PER_SECOND, Higher);
    if let Some(rate) = after(text, "Transfer/sec:") {
        let rate = sized("Transfer/sec", rate, BYTES, BINARY)?;
        outcome.add("throughput", rate, unit::BYTES_PER_SECOND, Higher);
    }
    threads(text, &mut outcome)?;
    percentiles(text, &mut outcome)?;
    let mut bad = 0;
    if let Some(number) = after(text, "Non-2xx or 3xx responses:") {
        bad = count("responses", number)?;
    }
    outcome.bad_statuses(bad, done);
    if let Some(errors) = after(text, "Socket errors:") {
        for name in ["connect", "read", "write", "timeout"] {
            let number = count("socket errors", word_after(errors, name).unwrap_or_default())?;
            outcome.add(format!("errors_{name}"), number as f64, unit::COUNT, Lower);
            outcome.errors = outcome.errors.saturating_add(number);
        }
    }
    Ok(outcome)
}

/// `Latency   656.20us    1.87ms  28.84ms   91.88%`, and likewise of each thread's rate.
fn threads(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    // The distribution of `--latency` begins with the same word, and wrk2 has more lines like it.
    let table = text.lines().skip_while(|line| !line.trim().starts_with("Thread Stats")).skip(1);
    for line in table.take(2) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, mean, sd, max, ..] = words[..] else { continue };
        for (value, figure) in [(mean, "mean"), (sd, "sd"), (max, "max")] {
            if name == "Latency" {
                let value = time("latency", value)?;
                outcome.add(format!("latency_{figure}"), value, unit::SECONDS, Lower);
            } else if name == "Req/Sec" {
                let value = sized("requests of a thread", value, &[""], DECIMAL)?;
                let name = format!("requests_per_second_of_a_thread_{figure}");
                outcome.add(name, value, unit::PER_SECOND, Neither);
            }
        }
    }
    Ok(())
}

/// `50%   60.00us`
fn percentiles(text: &str, outcome: &mut Outcome) -> Result<(), ReadError> {
    let Some(at) = text.find("Latency Distribution") else { return Ok(()) };
    for line in text[at..].lines().skip(1) {
        let Some((percent, value)) = line.trim().split_once('%') else { break };
        let percent = amount("percentile", percent)?;
        let time = seconds("percentile", time("percentile", value)?)?;
        outcome.percentiles.push(Percentile { percent, time });
    }
    Ok(())
}
