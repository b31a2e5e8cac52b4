//! Days since 1970 as dates.

/// Year, month and day of a day since 1970: Howard Hinnant, "chrono-compatible low-level date
/// algorithms", `civil_from_days`.
pub(crate) const fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + (month <= 2) as i64;
    (year, month, day)
}

/// Milliseconds since 1970 as `2026-11-20 12:00:00.250Z`.
pub fn utc(ms: i64) -> String {
    let (year, month, day) = date(ms.div_euclid(86_400_000));
    let of_day = ms.rem_euclid(86_400_000);
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_date_1() {
        // By `date -u -d @SECONDS`.
        assert_eq!(utc(1_795_176_000_250), "2026-11-20 12:00:00.250Z");
        assert_eq!(utc(951_782_399_000), "2000-02-28 23:59:59.000Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00.000Z");
        assert_eq!(utc(-1), "1969-12-31 23:59:59.999Z");
        assert_eq!(utc(4_102_444_800_000), "2100-01-01 00:00:00.000Z");
    }
}
