//! What is done, and who reads what it says.

use nightwatt_workloads::custom::{JsonPlan, JsonReader, RegexPlan, RegexReader};
use nightwatt_workloads::{Outcome, Output, ReadError, Tool, tool};
use serde::Deserialize;

use super::Wrong;
use crate::lines;

/// What is done, as the plan file has it. Lines are given to a shell.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// As tables call it.
    pub name: String,
    /// Whose output it is: `nightwatt compare --tools` lists them.
    pub tool: String,
    /// The line that is measured.
    pub command: String,
    /// Where that is run.
    #[serde(default)]
    pub at: Site,
    /// Lines that are run in the environment before, one after the other.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// A line that runs in the environment meanwhile: the server.
    pub serve: Option<String>,
    /// A line that ends well once the server can be used; tried again until then.
    pub ready: Option<String>,
    /// Lines that are run then, where `command` is: to fill a database, say.
    #[serde(default)]
    pub fill: Vec<String>,
    /// Lines that are run in the environment afterwards.
    #[serde(default)]
    pub finish: Vec<String>,
    /// Only in these environments; default: in all.
    #[serde(default)]
    pub environments: Vec<String>,
    /// For the tools `regex` and `json`: how their output is read.
    pub read: Option<toml::Table>,
}

/// What is done. Lines are given to a shell.
#[derive(Debug, Clone)]
pub struct Workload {
    /// As tables call it.
    pub name: String,
    /// Whose output it is.
    pub tool: String,
    /// Reads that output.
    pub reader: Reader,
    /// The line that is measured.
    pub command: String,
    /// Where that is run.
    pub at: Site,
    /// Lines that are run in the environment before.
    pub prepare: Vec<String>,
    /// The server: a line that runs in the environment meanwhile.
    pub serve: Option<String>,
    /// Ends well once the server can be used.
    pub ready: Option<String>,
    /// Lines that are run then, where the command is.
    pub fill: Vec<String>,
    /// Lines that are run in the environment afterwards.
    pub finish: Vec<String>,
    /// Environments that it is for; none: all.
    pub environments: Vec<String>,
}

/// Reads what a command said.
#[derive(Debug, Clone)]
pub enum Reader {
    /// One that is known.
    Tool(&'static Tool),
    /// By a regular expression of the plan.
    Regex(Box<RegexReader>),
    /// By pointers of the plan into JSON.
    Json(Box<JsonReader>),
}

impl Reader {
    /// Of the tool's name and what the plan says of reading.
    pub fn of(name: &str, read: Option<&toml::Table>) -> Result<Self, Wrong> {
        let table = |name: &str| {
            let why = format!("the tool `{name}` needs a `read` that says what its figures are");
            read.cloned().ok_or_else(|| Wrong::new("read", why))
        };
        let syntax = |error: toml::de::Error| Wrong::new("read", error.message().trim());
        let plan = |error: ReadError| Wrong::new("read", error.to_string());
        match name {
            "regex" => {
                let reader = RegexPlan::deserialize(table(name)?).map_err(syntax)?;
                RegexReader::new(reader).map(Box::new).map(Self::Regex).map_err(plan)
            }
            "json" => {
                let reader = JsonPlan::deserialize(table(name)?).map_err(syntax)?;
                JsonReader::new(reader).map(Box::new).map(Self::Json).map_err(plan)
            }
            _ => {
                let known = tool(name).map_err(|error| Wrong::new("tool", error.to_string()))?;
                match read {
                    Some(_) => Err(Wrong::new("read", "is for the tools `regex` and `json`")),
                    None => Ok(Self::Tool(known)),
                }
            }
        }
    }

    /// The figures of an output.
    pub fn read(&self, output: &Output<'_>) -> Result<Outcome, ReadError> {
        match self {
            Self::Tool(tool) => tool.read(output),
            Self::Regex(reader) => reader.read(output),
            Self::Json(reader) => reader.read(output),
        }
    }
}

/// Where a line is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Site {
    /// In the environment.
    #[default]
    Environment,
    /// Where the load comes from.
    Client,
}

impl Workload {
    pub(super) fn of(file: &WorkloadFile, reader: Reader) -> Self {
        Self {
            name: file.name.clone(),
            tool: file.tool.clone(),
            reader,
            command: file.command.clone(),
            at: file.at,
            prepare: file.prepare.clone(),
            serve: file.serve.clone(),
            ready: file.ready.clone(),
            fill: file.fill.clone(),
            finish: file.finish.clone(),
            environments: file.environments.clone(),
        }
    }

    /// All ports that its lines name.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.lines().flat_map(|(_, line)| lines::ports(line)).collect()
    }

    /// All lines, with the keys that they have in the plan.
    pub(super) fn lines(&self) -> impl Iterator<Item = (String, &str)> {
        let one = [("command", Some(&self.command)), ("serve", self.serve.as_ref())];
        let one = one.into_iter().chain([("ready", self.ready.as_ref())]);
        let one = one.filter_map(|(key, line)| Some((key.to_owned(), line?.as_str())));
        let many = [("prepare", &self.prepare), ("fill", &self.fill), ("finish", &self.finish)];
        let many = many.into_iter().flat_map(|(key, lines)| {
            let numbered = lines.iter().enumerate();
            numbered.map(move |(at, line)| (format!("{key}.{at}"), line.as_str()))
        });
        one.chain(many)
    }
}
