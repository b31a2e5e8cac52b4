//! What each arm costs and yields, block by block: recorded on a machine, or made up.

use serde::{Deserialize, Serialize};

use super::arm::Arm;
use super::bill::{Bill, Work};
use super::policy::{Block, BlockKind, Extent, sample_bytes};

/// The name of the format, in its first line.
const FORMAT: &str = "nightwatt-transfer-trace";
/// Its version.
const VERSION: u32 = 1;
/// Most arms and most blocks that are read.
const LIMITS: [usize; 2] = [64, 10_000_000];

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    arms: Vec<Arm>,
    source: String,
}

/// What an arm cost and yielded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// CPU time, s.
    pub seconds: f64,
    /// Bytes that came of it.
    pub packed: u32,
}

/// One block. `whole`, `sample` and `unpack` have a value for each arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceBlock {
    /// Its length.
    pub bytes: u32,
    /// What its bytes look like.
    #[serde(default)]
    pub kind: BlockKind,
    /// The link at this block, bytes per second.
    pub rate: f64,
    /// Of the whole block.
    pub whole: Vec<Figures>,
    /// Of its sample.
    pub sample: Vec<Figures>,
    /// CPU time to unpack the whole block, s.
    pub unpack: Vec<f64>,
}

/// Blocks in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The arms, none first.
    pub arms: Vec<Arm>,
    /// What was sent, and where it was recorded.
    pub source: String,
    /// The blocks.
    pub blocks: Vec<TraceBlock>,
}

/// Why a text is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line is not of the format.
    #[error("line {line} of the trace: {error}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// The first line names another format or version.
    #[error("not a trace of version {VERSION}: the first line says `{0}`")]
    Format(String),
    /// A block does not fit the arms.
    #[error("line {0} of the trace: a rate above 0, and one value for each arm, must be given")]
    Shape(usize),
    /// There are too many arms or blocks, or none.
    #[error("a trace has 1 to {} arms, of which none is the first, and 1 to {} blocks", LIMITS[0], LIMITS[1])]
    Size,
}

impl TraceBlock {
    /// The block as policies see it.
    pub fn block(&self, number: u64, ahead: Option<u64>) -> Block {
        Block {
            number,
            bytes: self.bytes,
            sample: sample_bytes(self.bytes),
            kind: self.kind,
            ahead,
        }
    }

    /// What an arm costs and yields. What grew is sent as it was.
    pub fn figures(&self, arm: usize, extent: Extent) -> Figures {
        let (figures, bytes) = match extent {
            Extent::Whole => (self.whole[arm], self.bytes),
            Extent::Sample => (self.sample[arm], sample_bytes(self.bytes)),
        };
        Figures { packed: figures.packed.min(bytes), ..figures }
    }

    /// The work of sending it with an arm.
    pub fn work(&self, arm: usize) -> Work {
        let Figures { seconds, packed } = self.figures(arm, Extent::Whole);
        let bytes = f64::from(packed);
        Work { compute: seconds, wire: bytes / self.rate, bytes, receiver: self.unpack[arm] }
    }

    /// The place of the arm with the least bill.
    pub fn best(&self, bill: &Bill) -> usize {
        let of = |arm: &usize| bill.of(&self.work(*arm));
        (0..self.whole.len()).min_by(|one, other| of(one).total_cmp(&of(other))).unwrap_or(0)
    }

    fn fits(&self, arms: usize) -> bool {
        let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        let figures = self.whole.iter().chain(&self.sample);
        [self.whole.len(), self.sample.len(), self.unpack.len()] == [arms; 3]
            && self.rate.is_finite()
            && self.rate > 0.0
            && figures.map(|it| it.seconds).chain(self.unpack.iter().copied()).all(is_time)
    }
}

impl Trace {
    /// The same blocks over a link of this rate.
    #[must_use]
    pub fn at_rate(&self, rate: f64) -> Self {
        let blocks = self.blocks.iter().map(|block| TraceBlock { rate, ..block.clone() });
        Self { blocks: blocks.collect(), ..self.clone() }
    }

    /// The same blocks again and again until there are this many.
    #[must_use]
    pub fn repeated(&self, count: usize) -> Self {
        let blocks = self.blocks.iter().cycle().take(count).cloned();
        Self { blocks: blocks.collect(), ..self.clone() }
    }

    /// As text: a line of JSON for the head and one for each block.
    pub fn to_lines(&self) -> Result<String, serde_json::Error> {
        let head = Head {
            format: FORMAT.to_owned(),
            version: VERSION,
            arms: self.arms.clone(),
            source: self.source.clone(),
        };
        let mut text = serde_json::to_string(&head)?;
        for block in &self.blocks {
            text.push('\n');
            text.push_str(&serde_json::to_string(block)?);
        }
        text.push('\n');
        Ok(text)
    }

    /// Reads it.
    pub fn from_lines(text: &str) -> Result<Self, TraceError> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let at = |line: usize| move |error| TraceError::Line { line: line + 1, error };
        let (_, first) = lines.next().ok_or_else(|| TraceError::Format(String::new()))?;
        let head: Head = serde_json::from_str(first).map_err(at(0))?;
        if head.format != FORMAT || head.version != VERSION {
            return Err(TraceError::Format(format!("{} {}", head.format, head.version)));
        }
        if head.arms.len() > LIMITS[0] || head.arms.first() != Some(&Arm::NONE) {
            return Err(TraceError::Size);
        }
        let mut blocks = Vec::new();
        for (index, line) in lines {
            let block: TraceBlock = serde_json::from_str(line).map_err(at(index))?;
            if !block.fits(head.arms.len()) {
                return Err(TraceError::Shape(index + 1));
            }
            blocks.push(block);
            if blocks.len() > LIMITS[1] {
                return Err(TraceError::Size);
            }
        }
        if blocks.is_empty() {
            return Err(TraceError::Size);
        }
        Ok(Self { arms: head.arms, source: head.source, blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Trace {
        let arms = vec![Arm::NONE, Arm::CANARY];
        let figures =
            |packed| vec![Figures { seconds: 0.0, packed: 100 }, Figures { seconds: 1e-3, packed }];
        let block = TraceBlock {
            bytes: 100,
            kind: BlockKind::Text,
            rate: 1e4,
            whole: figures(40),
            sample: figures(140),
            unpack: vec![0.0, 1e-4],
        };
        Trace { arms, source: "made up".into(), blocks: vec![block.clone(), block] }
    }

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let text = trace().to_lines().unwrap();
        assert_eq!(text.lines().count(), 3);
        assert_eq!(Trace::from_lines(&text).unwrap(), trace());
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let text = trace().to_lines().unwrap();
        let refused = |text: &str| Trace::from_lines(text).unwrap_err().to_string();
        assert!(refused("").contains("not a trace"));
        assert!(refused(&text.replace("\"version\":1", "\"version\":2")).contains("trace 2"));
        assert!(refused(&text.replace("\"rate\":10000.0", "\"rate\":0")).contains("line 2"));
        assert!(refused(&text.replace("[0.0,0.0001]", "[0.0]")).contains("each arm"));
        assert!(refused(&text.replace("zstd-1", "zstd-99")).contains("zstd-99"));
        assert!(refused(text.lines().next().unwrap()).contains("1 to"));
    }

    #[test]
    fn what_grew_is_sent_as_it_was() {
        let block = &trace().blocks[0];
        assert_eq!(block.figures(1, Extent::Sample).packed, 100);
        assert_eq!(block.figures(1, Extent::Whole).packed, 40);
        assert_eq!(block.best(&Bill::PUBLISHED), 1);
    }
}
