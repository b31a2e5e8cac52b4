//! How much each process did to each file, within bounds.

use std::collections::HashMap;

use super::{Device, File, Process, Traffic, Whose};

/// One process and one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The process and the file. A folded row has no file, and perhaps no process.
    pub whose: Whose,
    /// The process's command; empty without a process.
    pub command: String,
    /// The file's path; `None` if it is unknown.
    pub path: Option<String>,
    /// What was done.
    pub traffic: Traffic,
    /// Files that are in this row because there was no room for rows of their own.
    pub folded: u64,
}

/// All rows. When there are too many, the smallest rows of a process are merged into one, and then those of
/// processes.
#[derive(Debug, Clone, Default)]
pub struct StorageAccounting {
    rows: HashMap<(Whose, bool), Row>,
    most: usize,
}

impl StorageAccounting {
    /// For at most this many rows.
    pub fn new(most: usize) -> Self {
        Self { rows: HashMap::new(), most: most.max(16) }
    }

    /// Does the file of this row have a name already?
    pub fn is_named(&self, whose: Whose) -> bool {
        self.rows.get(&(whose, false)).is_some_and(|row| row.path.is_some())
    }

    /// So much more was done. What is known of the names stays known.
    pub fn add(&mut self, whose: Whose, command: &str, path: Option<String>, traffic: &Traffic) {
        self.put(whose, 0, command, path, traffic);
        if self.rows.len() > self.most {
            self.fold();
        }
    }

    fn put(
        &mut self,
        whose: Whose,
        folded: u64,
        command: &str,
        path: Option<String>,
        traffic: &Traffic,
    ) {
        let row = self.rows.entry((whose, folded > 0)).or_insert_with(|| Row {
            whose,
            command: String::new(),
            path: None,
            traffic: Traffic::default(),
            folded: 0,
        });
        row.traffic = row.traffic.and(traffic);
        row.folded += folded;
        if !command.is_empty() {
            command.clone_into(&mut row.command);
        }
        row.path = path.or_else(|| row.path.take());
    }

    /// Makes room: the half of the rows with the fewest bytes lose their files, and if that is not
    /// enough, their processes.
    fn fold(&mut self) {
        for forget_processes in [false, true] {
            let mut sizes: Vec<u64> = self.rows.values().map(size).collect();
            sizes.sort_unstable();
            let median = sizes[sizes.len() / 2];
            let small: Vec<_> = self
                .rows
                .iter()
                .filter(|(_, row)| size(row) <= median && !is_systems(row))
                .map(|(key, _)| *key)
                .collect();
            for key in small {
                let Some(row) = self.rows.remove(&key) else { continue };
                let process = if forget_processes { Process::NONE } else { row.whose.process };
                let file = File::none_on(row.whose.file.device);
                let command = if forget_processes { "" } else { &row.command };
                let whose = Whose { file, process };
                self.put(whose, row.folded.max(1), command, None, &row.traffic);
            }
            if self.rows.len() <= self.most * 3 / 4 {
                break;
            }
        }
    }

    /// All rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// All that was done to a device.
    pub fn of_device(&self, device: Device) -> Traffic {
        let of_it = self.rows.values().filter(|row| row.whose.file.device == device);
        of_it.fold(Traffic::default(), |sum, row| sum.and(&row.traffic))
    }

    /// Devices that something was done to.
    pub fn devices(&self) -> Vec<Device> {
        let mut devices: Vec<Device> =
            self.rows.values().map(|row| row.whose.file.device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }
}

/// What a device does on its own, and for others: one row each for a device, which stays.
fn is_systems(row: &Row) -> bool {
    row.whose.process == Process::NONE && !row.whose.file.is_named()
}

fn size(row: &Row) -> u64 {
    row.traffic.to_device() + row.traffic.read + row.traffic.dirtied
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn however_many_files_there_are_no_byte_is_lost_and_rows_stay_few(
            entries in prop::collection::vec((1..400_u64, 0..300_u32, 0..3_u32, 0..1_u64 << 30), 1..800),
        ) {
            let mut accounting = StorageAccounting::new(40);
            let mut sums = HashMap::new();
            for (inode, pid, device, bytes) in entries {
                let file = File { device: Device(device), inode, generation: 0 };
                let process = Process { pid, started: 0 };
                let traffic = Traffic { written: bytes, dirtied: bytes, ..Traffic::default() };
                accounting.add(Whose { file, process }, "writer", None, &traffic);
                *sums.entry(device).or_insert(0) += bytes;
                prop_assert!(accounting.rows().count() <= 41);
            }
            for (device, bytes) in sums {
                prop_assert_eq!(accounting.of_device(Device(device)).written, bytes);
            }
        }
    }

    #[test]
    fn the_largest_rows_keep_their_names() {
        let mut accounting = StorageAccounting::new(16);
        let whose = |pid, inode| Whose {
            file: File { device: Device(1), inode, generation: 0 },
            process: Process { pid, started: 1 },
        };
        let bytes = |written| Traffic { written, ..Traffic::default() };
        accounting.add(whose(1, 1), "large", Some("var/log".into()), &bytes(1 << 40));
        for inode in 2..500 {
            accounting.add(whose(2, inode), "many", Some(inode.to_string()), &bytes(1));
        }
        let large = accounting.rows().find(|row| row.command == "large").unwrap();
        assert_eq!((large.path.as_deref(), large.folded), (Some("var/log"), 0));
        let many: u64 = accounting
            .rows()
            .filter(|row| row.command == "many")
            .map(|it| it.traffic.written)
            .sum();
        assert_eq!(many, 498);
    }
}
