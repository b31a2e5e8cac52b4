//! On a board that keeps a record, and on the kernel's simulated chip where there is one.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::*;

/// What happened to its lines, and what is read of each.
#[derive(Debug, Clone, Default)]
struct Record {
    told: Arc<Mutex<Vec<String>>>,
    on: Arc<Mutex<Option<bool>>>,
}

struct Held(Record);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.note("released");
    }
}

impl Record {
    fn note(&self, what: impl Into<String>) {
        self.told.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

impl Board for Record {
    fn press(&self, line: &Line, active_low: bool) -> io::Result<Box<dyn Send>> {
        self.note(format!("pressed {line}{}", if active_low { " low" } else { "" }));
        Ok(Box::new(Held(self.clone())))
    }

    fn read(&self, _: &Line, active_low: bool) -> io::Result<bool> {
        let on = self.on.lock().unwrap();
        on.map(|high| high != active_low).ok_or_else(|| io::ErrorKind::ResourceBusy.into())
    }
}

fn button(text: &str) -> (Gpio, Record) {
    let record = Record::default();
    let board = Box::new(record.clone());
    (Gpio { config: toml::from_str(text).unwrap(), clock: Clock::real(), board }, record)
}

fn run<T>(work: impl Future<Output = T>) -> T {
    Clock::real().runtime().unwrap().block_on(work)
}

#[test]
fn a_button_is_pressed_and_released_each_time_where_nothing_says_that_it_need_not() {
    let (gpio, record) = button(
        "line = \"/dev/gpiochip0:17\"\npress = \"1ms\"\nsleep_press = \"2ms\"\nactive_low = true",
    );
    run(gpio.wake()).unwrap();
    run(gpio.sleep()).unwrap();
    assert_eq!(record.take(), ["pressed /dev/gpiochip0:17 low", "released"].repeat(2));
    assert_eq!(run(gpio.state()).unwrap(), Observed::Unknown);
}

#[test]
fn a_button_is_left_alone_where_it_would_do_the_opposite() {
    let (gpio, record) = button("line = \"GPIO17\"\npress = \"1ms\"\nsense = \"led\"");
    *record.on.lock().unwrap() = Some(true);
    assert_eq!(run(gpio.state()).unwrap(), Observed::Up);
    run(gpio.wake()).unwrap();
    assert!(record.take().is_empty(), "it is up");
    *record.on.lock().unwrap() = Some(false);
    assert_eq!(run(gpio.state()).unwrap(), Observed::Down);
    run(gpio.sleep()).unwrap();
    assert!(record.take().is_empty(), "it is down");
    run(gpio.wake()).unwrap();
    assert_eq!(record.take(), ["pressed GPIO17", "released"]);
    *record.on.lock().unwrap() = None;
    let error = run(gpio.wake()).unwrap_err();
    assert!(record.take().is_empty(), "nobody knows");
    assert!(error.hint().contains("who uses the line"), "{error}: {}", error.hint());
    let (low, record) = button("line = \"a\"\nsense = \"led\"\nsense_active_low = true");
    *record.on.lock().unwrap() = Some(false);
    assert_eq!(run(low.state()).unwrap(), Observed::Up);
}

#[test]
fn a_button_does_not_stay_pressed_when_nobody_waits_any_more() {
    let (gpio, record) = button("line = \"GPIO17\"\npress = \"30s\"");
    run(async {
        tokio::select! {
            biased;
            _ = gpio.wake() => panic!("it takes 30 s"),
            () = std::future::ready(()) => {}
        }
    });
    assert_eq!(record.take(), ["pressed GPIO17", "released"]);
}

#[test]
fn a_line_that_is_not_there_is_named_with_what_to_do() {
    let context =
        crate::Context { clock: Clock::real(), state_dir: PathBuf::new(), site: String::new() };
    for line in ["/nowhere/gpiochip0:1", "nobody's line"] {
        let config: Config = toml::from_str(&format!("line = \"{line}\"")).unwrap();
        let error = run(config.build(&context).unwrap().wake()).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot reach the GPIO line {line}"));
        assert!(error.hint().contains("gpioinfo") && !error.retryable(), "{}", error.hint());
    }
}

/// Its lines can be looked at, and pulled, from outside.
#[test]
fn on_a_simulated_chip_the_button_has_the_level_that_it_is_pressed_to() {
    let sim = Path::new("/sys/kernel/config/gpio-sim");
    if !sim.exists() {
        println!("skipped: this kernel has no gpio-sim (modprobe gpio-sim, as root)");
        return;
    }
    let device = sim.join(format!("nightwatt-power-{}", std::process::id()));
    let bank = device.join("bank0");
    std::fs::create_dir_all(&bank).unwrap();
    std::fs::write(bank.join("num_lines"), "4").unwrap();
    std::fs::write(device.join("live"), "1").unwrap();
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap().trim().to_owned();
    let chip = read(bank.join("chip_name"));
    let lines = format!("/sys/devices/platform/{}/{chip}", read(device.join("dev_name")));
    let of = |number: u32, file: &str| PathBuf::from(format!("{lines}/sim_gpio{number}/{file}"));
    let button = Line::Numbered(format!("/dev/{chip}").into(), 2);
    let led = Line::Numbered(format!("/dev/{chip}").into(), 3);
    for (active_low, pressed, released) in [(false, "1", "0"), (true, "0", "1")] {
        let held = Kernel.press(&button, active_low).unwrap();
        assert_eq!(read(of(2, "value")), pressed);
        drop(held);
        let _ = released;
    }
    for (pull, on) in [("pull-up", true), ("pull-down", false)] {
        std::fs::write(of(3, "pull"), pull).unwrap();
        assert_eq!(Kernel.read(&led, false).unwrap(), on);
        assert_eq!(Kernel.read(&led, true).unwrap(), !on);
    }
    std::fs::write(device.join("live"), "0").unwrap();
    std::fs::remove_dir(&bank).unwrap();
    std::fs::remove_dir(&device).unwrap();
}
