//! `calibrate states`: rows of a table to `P_on`, `P_off` and `E_switch`.

use std::time::Duration;

use nightwatt_model::calibrate::states::{EnergyErrors, StatesFit, StatesRow, fit_states};
use nightwatt_model::quantity::Joules;

use crate::error::Error;

/// Names of the columns, in any order.
const COLUMNS: [&str; 4] = ["on_s", "off_s", "cycles", "joules"];

/// Fits a table: CSV with a head that names `on_s`, `off_s`, `cycles`, `joules`, and, if every row has
/// one, `joules_sd`, the energy's standard error. Lines that begin with `#` are left out.
pub fn fit(table: &str) -> Result<StatesFit, Error> {
    let mut lines = table.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let mut lines = lines.by_ref().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (_, head) = lines.next().ok_or_else(|| bad(1, "there is nothing in it"))?;
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let place = |name: &str| names.iter().position(|it| *it == name);
    let missing = COLUMNS.iter().find(|name| place(name).is_none());
    if let Some(name) = missing {
        return Err(bad(
            1,
            &format!("the head names no `{name}`; it must name {}", COLUMNS.join(", ")),
        ));
    }
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |name: &str| -> Result<f64, Error> {
            let text = place(name).and_then(|place| cells.get(place)).copied().unwrap_or_default();
            let value: f64 = text
                .parse()
                .map_err(|_| bad(number, &format!("`{name}` is `{text}`, which is no number")))?;
            Ok(value)
        };
        let time = |name: &str| -> Result<Duration, Error> {
            let seconds = cell(name)?;
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| bad(number, &format!("`{name}` is {seconds}, which is no time")))
        };
        let cycles = cell("cycles")?;
        if cycles < 0.0 || cycles.fract() != 0.0 || cycles > f64::from(u32::MAX) {
            return Err(bad(number, &format!("`cycles` is {cycles}, and must be a count")));
        }
        let energy = Joules(cell("joules")?);
        rows.push(StatesRow {
            on: time("on_s")?,
            off: time("off_s")?,
            cycles: cycles as u32,
            energy,
        });
        if place("joules_sd").is_some() {
            errors.push(Joules(cell("joules_sd")?));
        }
    }
    let errors = if errors.is_empty() { EnergyErrors::Equal } else { EnergyErrors::Known(&errors) };
    Ok(fit_states(&rows, errors)?)
}

fn bad(line: usize, why: &str) -> Error {
    Error::Table { line, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_rows_give_the_published_server_back() {
        // 43.3 W, 1.6 W, 170.7 J: 600 x 43.3 + 3000 x 1.6 + 4 x 170.7, and so on.
        let table = "# a week\ncycles, on_s, off_s, joules\n4,600,3000,31462.8\n0,1000,0,43300\n\
                     1,0,10000,16170.7\n9,100,50,5946.3\n";
        let fit = fit(table).unwrap();
        assert!((fit.on.value.get() - 43.3).abs() < 1e-9, "{fit:?}");
        assert!((fit.off.value.get() - 1.6).abs() < 1e-9, "{fit:?}");
        assert!((fit.switch.value.get() - 170.7).abs() < 1e-7, "{fit:?}");
    }

    #[test]
    fn what_is_wrong_with_a_table_is_told_with_its_line() {
        let error = |table: &str| fit(table).unwrap_err().to_string();
        assert!(error("").contains("line 1"), "{}", error(""));
        assert!(error("on_s,off_s,joules\n1,2,3").contains("names no `cycles`"));
        let head = "on_s,off_s,cycles,joules\n";
        assert!(error(&format!("{head}1,2,1,3\n1,x,1,3")).contains("line 3: `off_s` is `x`"));
        assert!(error(&format!("{head}-1,2,1,3")).contains("no time"));
        assert!(error(&format!("{head}1,2,1.5,3")).contains("must be a count"));
        let unknown = error(&format!("{head}10,0,0,433\n20,0,0,866\n30,0,0,1299"));
        assert!(unknown.contains("cannot be determined"), "{unknown}");
    }
}
