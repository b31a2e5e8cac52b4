//! What it costs a thread that the kernel single-steps an instruction behind a probe.
//!
//! A probe counts the time up to the moment at which it runs, so that the step that follows a function's entry
//! falls into the function. It is measured on a program of a few bytes that calls two functions in turn: the
//! first instruction of one is stepped, that of the other is not.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::ProbeError;
use crate::place::{InstructionKind, ProbeSite};
use crate::sections::{SectionProbes, Watch};

/// Calls of each function in a run, and runs.
const CALLS: u32 = 400;
const RUNS: usize = 9;

/// The half-width is this share at least: in a program that does some work the cost is higher than in a loop that
/// does none (14 % were seen), and it varies with what else the machine does (21 % beside a load of ten).
const LEAST: f64 = 0.4;

/// What an instruction costs that is single-stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepCost {
    /// Of one.
    pub each: Duration,
    /// How far it may be off in another program.
    pub half_width: Duration,
}

/// Where the code of the program begins, behind the headers of its file.
const CODE: usize = 64 + 56;

/// ```text
///      mov  $CALLS, %ebx
/// 1:   call pushed
///      call stepped
///      dec  %ebx
///      jnz  1b
///      mov  $60, %eax          # exit(0)
///      xor  %edi, %edi
///      syscall
/// pushed:
///      push %rbx;      pop %rbx;       ret
/// stepped:
///      sub  $8, %rsp;  add  $8, %rsp;  ret
/// ```
const PUSHED: usize = CODE + 28;
const STEPPED: usize = CODE + 31;

fn program() -> Vec<u8> {
    let address = 0x40_0000_u64;
    let mut code = vec![0xbb];
    code.extend(CALLS.to_le_bytes());
    code.extend([0xe8, 18, 0, 0, 0, 0xe8, 16, 0, 0, 0, 0xff, 0xcb, 0x75, 0xf2]);
    code.extend([0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]);
    code.extend([0x53, 0x5b, 0xc3]);
    code.extend([0x48, 0x83, 0xec, 8, 0x48, 0x83, 0xc4, 8, 0xc3]);
    let length = (CODE + code.len()) as u64;
    // The header of a program for amd64, and of its only segment, which may be read and executed.
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for word in [address + CODE as u64, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, address, address, length, length, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(code);
    file
}

/// Measures it; none where this machine has no such instructions, or does not let us try.
pub fn step_cost() -> Result<Option<StepCost>, ProbeError> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(None);
    }
    // Not in a file: the folder for temporary ones may be mounted `noexec`.
    let Ok(file) = memfd_create("nightwatt-steps", MemfdFlags::CLOEXEC) else { return Ok(None) };
    let mut file = File::from(file);
    if file.write_all(&program()).is_err() {
        return Ok(None);
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let place = |at: usize, instruction| ProbeSite {
        path: path.clone(),
        offset: at as u64,
        semaphore: None,
        also: Vec::new(),
        name: "a call that is measured beforehand".to_owned(),
        instruction,
        may_unwind: false,
        may_switch_stacks: false,
    };
    let mut probes = SectionProbes::load(Watch::Children)?;
    probes.start()?;
    probes.together(|probes| {
        probes.attach_function(0, &place(PUSHED, InstructionKind::Push))?;
        probes.attach_function(1, &place(STEPPED, InstructionKind::Stepped))
    })?;
    let mut costs = Vec::new();
    let mut before = [Duration::ZERO; 2];
    for _ in 0..RUNS {
        let nothing = Stdio::null;
        let ran = Command::new(&path).stdin(nothing()).stdout(nothing()).stderr(nothing()).status();
        if !ran.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let now = [probes.calls(0)?.ran, probes.calls(1)?.ran];
        let [pushed, stepped] = [0, 1].map(|it| now[it].saturating_sub(before[it]) / CALLS);
        costs.push(stepped.saturating_sub(pushed));
        before = now;
    }
    Ok(Some(StepCost::of(costs)))
}

impl StepCost {
    /// The middle run's, and how far all but the two outermost were from each other.
    fn of(mut costs: Vec<Duration>) -> Self {
        costs.sort_unstable();
        let each = costs[costs.len() / 2];
        let spread = costs[costs.len() - 2].saturating_sub(costs[1]);
        Self { each, half_width: spread.max(each.mul_f64(LEAST)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_middle_one_and_what_most_runs_differ_by() {
        let us = Duration::from_micros;
        let of = |costs: [u64; 5]| StepCost::of(costs.map(us).to_vec());
        assert_eq!(of([15, 900, 14, 1, 16]), StepCost { each: us(15), half_width: us(6) });
        assert_eq!(of([20, 20, 20, 20, 20]), StepCost { each: us(20), half_width: us(8) });
    }

    #[test]
    fn the_program_runs_and_its_functions_are_where_the_probes_go() {
        let program = program();
        assert_eq!(&program[PUSHED..PUSHED + 3], [0x53, 0x5b, 0xc3]);
        assert_eq!(&program[STEPPED..STEPPED + 4], [0x48, 0x83, 0xec, 8]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps");
        std::fs::write(&path, &program).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        assert!(Command::new(path).status().unwrap().success());
    }
}
