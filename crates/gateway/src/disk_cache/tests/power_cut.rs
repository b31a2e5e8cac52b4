//! Power cuts, simulated: of what was not synced any sector may be on the disk or not, in any order, with
//! zeros, garbage or the bytes of a removed file in the place of those that are not; a page that was being
//! written again may have lost what was synced of it; of the files that were made and removed since the
//! folder was synced, any may be there or not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::*;

const SECTOR: usize = 512;

/// Power cuts in one run of the test; each begins with what the last one left.
const CASES: u64 = 20_000;

#[derive(Debug, Default)]
struct Platter {
    /// What is on the disk for certain.
    synced: BTreeMap<u64, Vec<u8>>,
    /// Where pages begin that were synced, and written to again.
    rewritten: BTreeMap<u64, u64>,
    /// Files made and removed since the folder was synced.
    made: BTreeSet<u64>,
    removed: BTreeMap<u64, Vec<u8>>,
    /// What removed files have left in their blocks.
    left: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
struct Disk {
    /// As the process sees it.
    files: Memory,
    platter: Arc<Mutex<Platter>>,
    /// So many more calls until the power is cut; then all fail.
    left: Arc<Mutex<Option<u64>>>,
}

impl Disk {
    fn call(&self) -> io::Result<()> {
        let mut left = self.left.lock().unwrap();
        match &mut *left {
            None => Ok(()),
            Some(0) => Err(io::ErrorKind::BrokenPipe.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// What is on the disk after a power cut.
    fn after_power_cut(&self, dice: &mut Dice) -> Self {
        let platter = self.platter.lock().unwrap();
        let live = self.files.0.lock().unwrap();
        let mut files: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for (number, file) in live.iter() {
            if platter.made.contains(number) && dice.below(2) == 0 {
                continue;
            }
            files.insert(*number, torn(&platter, *number, file, dice));
        }
        for (number, file) in &platter.removed {
            if dice.below(2) == 0 {
                files.insert(*number, torn(&platter, *number, file, dice));
            }
        }
        let platter =
            Platter { synced: files.clone(), left: platter.left.clone(), ..Platter::default() };
        Self {
            files: Memory(Arc::new(Mutex::new(files))),
            platter: Arc::new(Mutex::new(platter)),
            left: Arc::default(),
        }
    }
}

/// A file of which a part was on the disk, and of the rest any sector may be.
fn torn(platter: &Platter, number: u64, live: &[u8], dice: &mut Dice) -> Vec<u8> {
    let (synced, left) =
        (platter.synced.get(&number).map_or(&[][..], Vec::as_slice), &platter.left);
    let length =
        synced.len() + dice.below((live.len() - synced.len().min(live.len())) as u64 + 1) as usize;
    let mut file = synced.to_vec();
    file.truncate(platter.rewritten.get(&number).map_or(usize::MAX, |at| *at as usize));
    // Mostly everything before the cut is there.
    let loses = dice.below(3) == 0;
    while file.len() < length {
        let end = ((file.len() / SECTOR + 1) * SECTOR).min(length);
        let place = file.len()..end;
        let chance = if loses { dice.below(6) } else { 5 };
        match chance {
            0 => file.resize(end, 0),
            1 => file.extend(place.map(|_| dice.next() as u8)),
            2 if left.len() >= end => file.extend(&left[place]),
            _ => file.extend(&live[place]),
        }
    }
    file
}

impl Storage for Disk {
    fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        self.files.list()
    }

    fn create(&self, segment: u64) -> io::Result<()> {
        self.call()?;
        self.platter.lock().unwrap().made.insert(segment);
        self.files.create(segment)
    }

    fn write(&self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.call() {
            // In the middle of it.
            self.files.write(segment, at, &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        let mut platter = self.platter.lock().unwrap();
        let platter = &mut *platter;
        if platter.synced.get(&segment).is_some_and(|it| at / PAGE * PAGE < it.len() as u64) {
            let first = platter.rewritten.entry(segment).or_insert(u64::MAX);
            *first = (*first).min(at / PAGE * PAGE);
        }
        self.files.write(segment, at, bytes)
    }

    fn read(&self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.files.read(segment, at, into)
    }

    fn sync(&self, segment: u64) -> io::Result<()> {
        self.call()?;
        let file = self.files.with(segment, |file| Some(file.clone()))?;
        let mut platter = self.platter.lock().unwrap();
        platter.synced.insert(segment, file);
        platter.rewritten.remove(&segment);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.call()?;
        let mut platter = self.platter.lock().unwrap();
        let platter = &mut *platter;
        platter.made.clear();
        for (number, file) in std::mem::take(&mut platter.removed) {
            platter.synced.remove(&number);
            platter.left = file;
        }
        Ok(())
    }

    fn cut(&self, segment: u64, length: u64) -> io::Result<()> {
        self.call()?;
        self.files.cut(segment, length)?;
        // It was torn off: whether that is on the disk makes no difference to what is said of it.
        if let Some(file) = self.platter.lock().unwrap().synced.get_mut(&segment) {
            file.truncate(length as usize);
        }
        Ok(())
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        self.call()?;
        let file = self.files.with(segment, |file| Some(file.clone()))?;
        let mut platter = self.platter.lock().unwrap();
        if !platter.made.remove(&segment) {
            platter.removed.insert(segment, file);
        }
        self.files.remove(segment)
    }
}

/// What a name may say after a restart.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Bodies that were written since it was last forgotten for certain.
    versions: Vec<Vec<u8>>,
    /// The last of them is on the disk for certain.
    durable: bool,
}

/// One life of the process, up to a power cut.
fn live(disk: &Disk, dice: &mut Dice, known: &mut HashMap<u64, Known>) {
    let Ok((mut log, _)) = Log::open(disk.clone(), SMALL, dice.next(), &|| false) else { return };
    for _ in 0..dice.below(40) {
        let path = dice.below(12);
        let name = name(&path.to_string());
        if dice.below(4) == 0 {
            let told = log.shared().index().forget(&name);
            let known = known.entry(path).or_default();
            known.durable = false;
            if !told || log.forget(&[name]).is_ok() {
                known.versions.clear();
            }
        } else {
            let id = new("", b"", None).meta.variant();
            let body = if dice.below(3) == 0 {
                // Confirmed, if it is there.
                log.shared().fetch(&name).0.pop().map(|(_, body, _)| body.to_vec())
            } else {
                None
            };
            let version = dice.next() as u8;
            let body = body.unwrap_or_else(|| vec![version; dice.below(1800) as usize]);
            let place = log.shared().index().outdate(&name, id);
            let known = known.entry(path).or_default();
            known.versions.push(body.clone());
            known.durable = false;
            let batch = vec![new(&path.to_string(), &body, place)];
            known.durable = log.write(batch, u64::MAX, NO_DAY).is_ok_and(|it| it.records == 1);
        }
        if *disk.left.lock().unwrap() == Some(0) {
            return;
        }
    }
}

fn check(disk: &Disk, known: &mut HashMap<u64, Known>, case: u64) -> u64 {
    let (log, _) = Log::open(disk.clone(), SMALL, 5, &|| false).unwrap();
    let mut whole = 0;
    for (path, known) in known {
        let body = read(&log, &path.to_string());
        if let Some(body) = &body {
            let said = known.versions.contains(body);
            assert!(
                said,
                "case {case}: {path} has {} bytes that were forgotten or never written",
                body.len()
            );
            whole += 1;
        }
        if known.durable && log.shared().index().bytes() < SMALL.bytes / 2 {
            // Nothing had to be removed to make room.
            assert_eq!(body.as_ref(), known.versions.last(), "case {case}: {path} was on the disk");
        }
        known.durable = false;
    }
    whole
}

#[test]
fn whatever_a_power_cut_leaves_is_whole_and_nothing_forgotten_comes_back() {
    let mut dice = Dice(7);
    let (mut whole, mut case) = (0, 0);
    while case < CASES {
        // A card that has had ten power cuts starts over.
        let mut disk = Disk::default();
        let mut known = HashMap::new();
        for _ in 0..10 {
            *disk.left.lock().unwrap() = Some(dice.below(150));
            live(&disk, &mut dice, &mut known);
            disk = disk.after_power_cut(&mut dice);
            whole += check(&disk, &mut known, case);
            case += 1;
        }
    }
    assert!(whole > 2 * CASES, "only {whole} answers came back: the test shows little");
}
