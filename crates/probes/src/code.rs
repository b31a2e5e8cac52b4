//! Machine code of functions: where they are left, and where a Go function's work begins.
//!
//! A probe that is put anywhere but at the beginning of an instruction breaks the program. So the code
//! is decoded from one end of the function to the other, and believed only if every branch in it leads
//! to where an instruction was found to begin.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use crate::place::{InstructionKind, instruction_kind};

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// Instructions before an indirect jump in which is looked for where it goes.
const LOOKED_BACK: usize = 12;

/// One piece of a function. Compilers move what is seldom needed away from the rest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// As the file counts.
    pub(crate) address: u64,
    /// From there on.
    pub(crate) code: &'a [u8],
}

impl Piece<'_> {
    fn range(&self) -> Range<u64> {
        self.address..self.address + self.code.len() as u64
    }
}

/// How a function is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WaysOut {
    /// Addresses of instructions that leave it: returns, and jumps to other functions (last calls).
    pub(crate) at: Vec<u64>,
    /// Jumps that may leave it and may not.
    pub(crate) unsure: usize,
}

/// Code that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotUnderstood;

/// Where a function is left: a jump to where it `begins_at` leaves it and enters it again.
/// `word_at` returns the word at an address of the file.
pub(crate) fn ways_out(
    begins_at: &RangeInclusive<u64>,
    pieces: &[Piece<'_>],
    word_at: impl Fn(u64) -> Option<u64>,
) -> Result<WaysOut, NotUnderstood> {
    let mut ways = WaysOut::default();
    let (mut begins, mut targets) = (BTreeSet::new(), Vec::new());
    // Jumps by a pointer, and code that no instruction falls into: it must be a target, or a label
    // that such a jump may lead to.
    let (mut by_pointer, mut unreached) = (Vec::new(), Vec::new());
    let is_within =
        |to: u64| !begins_at.contains(&to) && pieces.iter().any(|it| it.range().contains(&to));
    for piece in pieces {
        let mut falls_in = piece.address == pieces[0].address;
        let mut past: Vec<Instruction> = Vec::new();
        for instruction in instructions(*piece) {
            let at = instruction.ip();
            if instruction.is_invalid() || instruction.next_ip() > piece.range().end {
                return Err(NotUnderstood);
            }
            begins.insert(at);
            if !falls_in && !is_padding(&instruction) {
                unreached.push(at);
                falls_in = true;
            }
            falls_in &= !matches!(instruction.mnemonic(), Mnemonic::Ret | Mnemonic::Jmp);
            let to = branch_target(&instruction);
            let inside = to.filter(|to| pieces.iter().any(|piece| piece.range().contains(to)));
            targets.extend(inside.filter(|_| instruction.mnemonic() != Mnemonic::Call));
            let stays = inside.is_some_and(|to| !begins_at.contains(&to));
            match (instruction.mnemonic(), to) {
                (Mnemonic::Ret, _) => ways.at.push(at),
                (Mnemonic::Jmp, Some(_)) if !stays => ways.at.push(at),
                (Mnemonic::Jmp, None) => match jump_by(&instruction, &past) {
                    By::Label => {}
                    By::Table(Some(table)) if word_at(table).is_some_and(is_within) => {}
                    By::Pointer => by_pointer.push(at),
                    By::Table(_) | By::Unknown => ways.unsure += 1,
                },
                // Only some of the times that it is come by.
                (mnemonic, Some(_)) if mnemonic != Mnemonic::Call && !stays => ways.unsure += 1,
                _ => {}
            }
            past.push(instruction);
        }
    }
    // `goto *label` looks like a last call. Where all code is come to without it, there is no label.
    if unreached.iter().all(|at| targets.contains(at)) {
        ways.at.extend(by_pointer);
        ways.at.sort_unstable();
    } else {
        ways.unsure += by_pointer.len();
    }
    if targets.iter().all(|to| begins.contains(to)) { Ok(ways) } else { Err(NotUnderstood) }
}

/// What compilers put between pieces of code, and behind what does not return.
fn is_padding(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2)
}

/// Does an instruction begin there?
pub(crate) fn has_instruction_at(piece: Piece<'_>, address: u64) -> bool {
    find(piece, |instruction| instruction.ip() >= address).is_some_and(|found| found == address)
}

fn instructions(piece: Piece<'_>) -> impl Iterator<Item = Instruction> {
    let mut decoder = Decoder::with_ip(64, piece.code, piece.address, DecoderOptions::NONE);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
}

/// Where a direct jump or call goes.
fn branch_target(instruction: &Instruction) -> Option<u64> {
    matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
    .then(|| instruction.near_branch_target())
}

/// What an indirect jump goes by.
enum By {
    /// A place within the function, surely.
    Label,
    /// An entry of a table of addresses: of a `switch`, or of functions. Where it begins, if that is
    /// known.
    Table(Option<u64>),
    /// A pointer, to another function most often.
    Pointer,
    /// It comes from further back, or from elsewhere.
    Unknown,
}

fn jump_by(jump: &Instruction, past: &[Instruction]) -> By {
    // `notrack`: a compiler that marks where jumps may go did not mark where this one does.
    if jump.segment_prefix() == Register::DS {
        return By::Label;
    }
    if jump.op0_kind() == OpKind::Memory {
        return by_memory(jump, past);
    }
    let Some((set, past)) = last_set(jump.op0_register(), past) else { return By::Unknown };
    let from = if set.op_count() > 1 { set.op1_kind() } else { return By::Unknown };
    match (set.mnemonic(), from) {
        // The table's address, and the distance that stands in it.
        (Mnemonic::Add, OpKind::Register) => By::Label,
        (Mnemonic::Mov | Mnemonic::Movsxd, OpKind::Memory) => by_memory(set, past),
        (Mnemonic::Mov | Mnemonic::Lea, _) => By::Pointer,
        _ => By::Unknown,
    }
}

/// By what stands in memory.
fn by_memory(instruction: &Instruction, past: &[Instruction]) -> By {
    if instruction.memory_index() == Register::None {
        return By::Pointer;
    }
    let base = instruction.memory_base();
    let begins = instruction.memory_displacement64();
    if base == Register::None {
        return By::Table(Some(begins));
    }
    let set = last_set(base, past).map(|(set, _)| set);
    let set = set.filter(|set| set.mnemonic() == Mnemonic::Lea && set.is_ip_rel_memory_operand());
    By::Table(set.map(|set| set.ip_rel_memory_address().wrapping_add(begins)))
}

/// What a register was set by last, and what was before that.
fn last_set(register: Register, past: &[Instruction]) -> Option<(&Instruction, &[Instruction])> {
    let by = number(register);
    let sets = |past: &Instruction| {
        past.op_count() > 0
            && past.op0_kind() == OpKind::Register
            && number(past.op0_register()) == by
            && !matches!(past.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push)
    };
    let near = past.len().saturating_sub(LOOKED_BACK);
    let at = near + past[near..].iter().rposition(sets)?;
    Some((&past[at], &past[..at]))
}

/// A register's number, whether all of it is named or its lower half, which clears the upper one.
fn number(register: Register) -> Option<u32> {
    let within = |first: Register, last: Register| {
        let (number, first) = (register as u32, first as u32);
        (first..=last as u32).contains(&number).then(|| number - first)
    };
    within(Register::RAX, Register::R15).or_else(|| within(Register::EAX, Register::R15D))
}

/// How far behind the entry of a Go function its work begins. At the entry it checks whether its
/// stack is long enough. If not, the runtime copies the stack to a longer one and runs the function
/// from its entry again, so that the entry itself is passed twice.
pub(crate) fn behind_stack_check(piece: Piece<'_>) -> u64 {
    let mut compared = false;
    for instruction in instructions(piece).take(8) {
        let g = |operand: u32| {
            instruction.op_kind(operand) == OpKind::Memory
                && instruction.memory_base() == Register::R14
        };
        match instruction.mnemonic() {
            Mnemonic::Cmp if g(1) => compared = true,
            // A frame so large that the address could wrap around.
            Mnemonic::Lea | Mnemonic::Mov | Mnemonic::Sub | Mnemonic::Jb => {}
            Mnemonic::Jbe if compared => return instruction.next_ip() - piece.address,
            _ => return 0,
        }
    }
    0
}

/// Instructions at a function's entry among which is looked for one that the kernel need not single-step.
const AT_ENTRY: usize = 16;

/// How far behind the entry of a function the first instruction is that the kernel need not single-step, if each
/// call comes by it once, with the stack pointer of the entry. 0 if no such instruction exists.
pub(crate) fn first_unstepped(pieces: &[Piece<'_>]) -> u64 {
    let Some(entry) = pieces.first() else { return 0 };
    let mut behind = None;
    for instruction in instructions(*entry).take(AT_ENTRY) {
        let at = (instruction.ip() - entry.address) as usize;
        if instruction_kind(&entry.code[at..]) != InstructionKind::Stepped {
            behind = Some(at as u64);
            break;
        }
        if !is_passed(&instruction) {
            return 0;
        }
    }
    let Some(behind) = behind else { return 0 };
    let comes_back = |instruction: &Instruction| {
        instruction.is_invalid()
            || instruction.mnemonic() == Mnemonic::Jmp && branch_target(instruction).is_none()
            || branch_target(instruction)
                .is_some_and(|to| (entry.address + 1..=entry.address + behind).contains(&to))
    };
    let once = !pieces.iter().flat_map(|piece| instructions(*piece)).any(|it| comes_back(&it));
    if once { behind } else { 0 }
}

/// Does an instruction lead to the next one in no time, and leave the stack pointer as it is?
fn is_passed(instruction: &Instruction) -> bool {
    let is_plain = matches!(
        instruction.mnemonic(),
        Mnemonic::Endbr64
            | Mnemonic::Mov
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Lea
            | Mnemonic::Xor
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Not
            | Mnemonic::Neg
            | Mnemonic::Inc
            | Mnemonic::Dec
            | Mnemonic::Pxor
            | Mnemonic::Xorps
            | Mnemonic::Movaps
            | Mnemonic::Movups
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Movd
            | Mnemonic::Movq
    );
    let sets_stack = instruction.op0_kind() == OpKind::Register
        && number(instruction.op0_register()) == number(Register::RSP);
    is_plain && !sets_stack
}

/// The addresses of a piece's instructions that fit.
pub(crate) fn find(piece: Piece<'_>, fits: impl Fn(&Instruction) -> bool) -> Option<u64> {
    let found = instructions(piece).take_while(|it| !it.is_invalid()).find(|it| fits(it));
    found.map(|instruction| instruction.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as GNU as 2.40 and Go's assembler make them of what stands beside.
    fn ways(pieces: &[(u64, &[u8])]) -> Result<(Vec<u64>, usize), NotUnderstood> {
        let pieces: Vec<Piece<'_>> =
            pieces.iter().map(|&(address, code)| Piece { address, code }).collect();
        // A table of places within, one of functions, and nothing else.
        let word_at = |address| match address {
            0x2000 => Some(0x1002),
            0x3000 => Some(0x5000),
            0x4000 => Some(0x1000),
            _ => None,
        };
        ways_out(&(0x1000..=0x1000), &pieces, word_at).map(|ways| (ways.at, ways.unsure))
    }

    #[test]
    fn every_return_is_found_and_bytes_that_look_like_one_are_not() {
        // mov $0xc3, %eax; ret; repz ret; ret $8
        let code = [0xb8, 0xc3, 0, 0, 0, 0xc3, 0xf3, 0xc3, 0xc2, 8, 0];
        assert_eq!(ways(&[(0x1000, &code)]), Ok((vec![0x1005, 0x1006, 0x1008], 0)));
    }

    #[test]
    fn a_jump_to_another_function_is_an_end_and_one_within_is_not() {
        // jmp 0x1004; nop; nop; jmp 0x2000
        let code = [0xeb, 2, 0x90, 0x90, 0xe9, 0xf7, 0x0f, 0, 0];
        assert_eq!(ways(&[(0x1000, &code)]), Ok((vec![0x1004], 0)));
        // What is jumped to is a part of the function that was moved away; it jumps back and returns.
        let cold = [0x31, 0xc0, 0xc3, 0xe9, 0xfc, 0xef, 0xff, 0xff];
        assert_eq!(ways(&[(0x1000, &code), (0x2000, &cold)]), Ok((vec![0x2002], 0)));
    }

    #[test]
    fn a_jump_to_the_beginning_is_a_call_and_one_to_a_look_at_the_stack_before_it_is_not() {
        // jmp 0x1000; jmp 0xff0, within another piece
        let code = [0xeb, 0xfe, 0xeb, 0xec];
        let before = [0x90; 8];
        assert_eq!(ways(&[(0x1000, &code), (0xff0, &before)]), Ok((vec![0x1000], 0)));
    }

    #[test]
    fn a_conditional_jump_out_is_told_and_no_end() {
        // je 0x2000; ret
        let code = [0x0f, 0x84, 0xfa, 0x0f, 0, 0, 0xc3];
        assert_eq!(ways(&[(0x1000, &code)]), Ok((vec![0x1006], 1)));
    }

    #[test]
    fn a_switch_is_no_way_out_and_a_pointer_to_a_function_is() {
        for (code, is_end, is_unsure) in [
            // movslq (%rdx,%rax,4), %rax; add %rdx, %rax; jmp *%rax
            (&[0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0][..], false, false),
            // notrack jmp *%rax
            (&[0x3e, 0xff, 0xe0], false, false),
            // jmp *0x2000(,%rax,8)
            (&[0xff, 0x24, 0xc5, 0, 0x20, 0, 0], false, false),
            // jmp *0x3000(,%rax,8); jmp *0x4000(,%rax,8), of functions and of this one
            (&[0xff, 0x24, 0xc5, 0, 0x30, 0, 0], false, true),
            (&[0xff, 0x24, 0xc5, 0, 0x40, 0, 0], false, true),
            // jmp *(%rdi,%rdx,8)
            (&[0xff, 0x24, 0xd7], false, true),
            // lea 0xff9(%rip), %rdx, to 0x2000 and to 0x3000; jmp *(%rdx,%rax,8)
            (&[0x48, 0x8d, 0x15, 0xf9, 0x0f, 0, 0, 0xff, 0x24, 0xc2], false, false),
            (&[0x48, 0x8d, 0x15, 0xf9, 0x1f, 0, 0, 0xff, 0x24, 0xc2], false, true),
            // jmp *0x18(%rax)
            (&[0xff, 0x60, 0x18], true, false),
            // mov 0x18(%rax), %rax; jmp *%rax
            (&[0x48, 0x8b, 0x40, 0x18, 0xff, 0xe0], true, false),
            // jmp *%rax, which the caller gave
            (&[0xff, 0xe0], false, true),
        ] {
            let (at, unsure) = ways(&[(0x1000, code)]).unwrap();
            assert_eq!((at.len(), unsure), (is_end.into(), is_unsure.into()), "{code:x?}");
        }
    }

    #[test]
    fn a_jump_to_a_label_that_a_pointer_holds_is_no_end() {
        // jmp *(%rdi); nop; add %rsi, %rax; jmp *(%rdi); ret: a threaded interpreter.
        let code = [0xff, 0x27, 0x90, 0x48, 0x01, 0xf0, 0xff, 0x27, 0xc3];
        assert_eq!(ways(&[(0x1000, &code)]), Ok((vec![0x1008], 2)));
        // je 0x1004; jmp *(%rdi); ret: all of it is come to.
        let code = [0x74, 2, 0xff, 0x27, 0xc3];
        assert_eq!(ways(&[(0x1000, &code)]), Ok((vec![0x1002, 0x1004], 0)));
    }

    #[test]
    fn the_middle_of_an_instruction_is_no_beginning_of_one() {
        // push %rbp; mov $0xc3, %eax; ret
        let code = [0x55, 0xb8, 0xc3, 0, 0, 0, 0xc3];
        let begins = |address| has_instruction_at(Piece { address: 0x1000, code: &code }, address);
        let all: Vec<u64> = (0x1000..0x1009).filter(|address| begins(*address)).collect();
        assert_eq!(all, [0x1000, 0x1001, 0x1006]);
    }

    #[test]
    fn code_with_data_in_it_gets_no_probes() {
        // jmp 0x1003; one byte of data, which swallows the ret behind it
        let code = [0xeb, 1, 0xb8, 0xc3, 0x90, 0x90, 0x90, 0xc3];
        assert_eq!(ways(&[(0x1000, &code)]), Err(NotUnderstood));
        // An instruction that goes on behind the function's end; one that there is not.
        assert_eq!(ways(&[(0x1000, &[0xb8, 0xc3])]), Err(NotUnderstood));
        assert_eq!(ways(&[(0x1000, &[0x06, 0xc3])]), Err(NotUnderstood));
    }

    #[test]
    fn a_function_is_entered_at_the_first_instruction_that_is_not_stepped() {
        let behind = |code: &[u8]| first_unstepped(&[Piece { address: 0x1000, code }]);
        for (code, at) in [
            // push %rbx; ret
            (&[0x53, 0xc3][..], 0),
            // endbr64; push %rbp; ret
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0xc3], 4),
            // mov %rdi, %rax; push %rbx; ret
            (&[0x48, 0x89, 0xf8, 0x53, 0xc3], 3),
            // test %rdi, %rdi; je 0x1006; ret; ret
            (&[0x48, 0x85, 0xff, 0x74, 1, 0xc3, 0xc3], 3),
            // sub $8, %rsp; push %rbx; ret: the return address is elsewhere by then
            (&[0x48, 0x83, 0xec, 8, 0x53, 0xc3], 0),
            // xor %eax, %eax; syscall; push %rbx; ret: which may take any time
            (&[0x31, 0xc0, 0x0f, 0x05, 0x53, 0xc3], 0),
            // xor %eax, %eax; inc %eax; jne 0x1002; ret: a loop comes by the jump
            (&[0x31, 0xc0, 0xff, 0xc0, 0x75, 0xfc, 0xc3], 0),
            // xor %eax, %eax; push %rbx; jmp *%rdi: the target is unknown
            (&[0x31, 0xc0, 0x53, 0xff, 0xe7], 0),
        ] {
            assert_eq!(behind(code), at, "{code:x?}");
        }
        // A part that was moved away jumps back between: jmp 0x1003.
        let (entry, cold) = ([0x48, 0x89, 0xf8, 0x53, 0xc3], [0xe9, 0xfe, 0xef, 0xff, 0xff]);
        let pieces = [(0x1000, &entry[..]), (0x2000, &cold)];
        assert_eq!(first_unstepped(&pieces.map(|(address, code)| Piece { address, code })), 0);
    }

    #[test]
    fn a_go_function_begins_behind_the_look_at_its_stack() {
        let behind = |code: &[u8]| behind_stack_check(Piece { address: 0x1000, code });
        // CMPQ SP, 16(R14); JBE; PUSHQ BP
        assert_eq!(behind(&[0x49, 0x3b, 0x66, 0x10, 0x0f, 0x86, 0, 1, 0, 0, 0x55]), 10);
        // LEAQ -0x198(SP), R12; CMPQ R12, 16(R14); JBE (short); PUSHQ BP
        let large = [
            0x4c, 0x8d, 0xa4, 0x24, 0x68, 0xfe, 0xff, 0xff, 0x4d, 0x3b, 0x66, 0x10, 0x76, 0x20,
            0x55,
        ];
        assert_eq!(behind(&large), 14);
        // ADDQ (AX), BX; RET: it needs no stack.
        assert_eq!(behind(&[0x48, 0x03, 0x18, 0x48, 0x89, 0xd8, 0xc3]), 0);
    }
}
