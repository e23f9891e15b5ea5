//! The rows as JUnit's XML, which the result pages of CI systems read. Called by whoever writes the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::results::{CaseResult, Row};

/// A document with a suite for each file of cases.
pub fn xml(rows: &[Row]) -> String {
    let mut suites: BTreeMap<usize, (&str, Vec<&Row>)> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate() {
        match suites.values_mut().find(|(file, _)| *file == row.file) {
            Some((_, of_file)) => of_file.push(row),
            None => {
                suites.insert(place, (row.file, vec![row]));
            }
        }
    }
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let head = |text: &mut String, element: &str, name: &str, rows: &[&Row]| {
        let count = |result| rows.iter().filter(|row| row.result == result).count();
        let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
        // Nothing can go wrong where a string is written to.
        let _ = writeln!(
            text,
            "<{element} name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{seconds:.3}\">",
            escaped(name),
            rows.len(),
            count(CaseResult::Failed),
            count(CaseResult::NotApplicable),
        );
    };
    head(&mut text, "testsuites", "device plugin conformance", &rows.iter().collect::<Vec<_>>());
    for (file, of_file) in suites.values() {
        head(&mut text, "testsuite", file, of_file);
        of_file.iter().for_each(|row| case(&mut text, row));
        text.push_str("</testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn case(text: &mut String, row: &Row) {
    let (file, name, seen) = (escaped(row.file), escaped(row.case), escaped(&row.seen));
    let _ = writeln!(text, "<testcase classname=\"{file}\" name=\"{name}\" time=\"{:.3}\">", row.seconds);
    let first = escaped(row.seen.lines().next().unwrap_or_default());
    let _ = match row.result {
        CaseResult::Passed => Ok(()),
        CaseResult::Failed => writeln!(text, "<failure message=\"{first}\">{seen}</failure>"),
        CaseResult::NotApplicable => writeln!(text, "<skipped message=\"{first}\"/>"),
    };
    let mut output = row.steps.join("\n");
    if row.result == CaseResult::Passed {
        output = format!("{output}\n{}", row.seen);
    }
    let _ = writeln!(text, "<system-out>{}</system-out>\n</testcase>", escaped(output.trim()));
}

/// The text as it may stand in an element and in an attribute. What XML has no way to write is replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' | '\t' => escaped.push(letter),
            control if control.is_control() => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_by_file_and_nothing_breaks_out_of_its_place() {
        let row = |file, case, result, seen: &str| Row {
            file,
            case,
            result,
            seen: seen.to_owned(),
            steps: vec!["creating pod a".to_owned()],
            seconds: 0.5,
        };
        let rows = [
            row("a.go", "passes", CaseResult::Passed, "d0"),
            row("b.go", "says \"<no>\"", CaseResult::Failed, "a & b ]]> \u{1b}[1m\nmore"),
            row("a.go", "cannot", CaseResult::NotApplicable, "no CDI"),
        ];
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites name=\"device plugin conformance\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"1.500\">
<testsuite name=\"a.go\" tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"1\" time=\"1.000\">
<testcase classname=\"a.go\" name=\"passes\" time=\"0.500\">
<system-out>creating pod a\nd0</system-out>
</testcase>
<testcase classname=\"a.go\" name=\"cannot\" time=\"0.500\">
<skipped message=\"no CDI\"/>
<system-out>creating pod a</system-out>
</testcase>
</testsuite>
<testsuite name=\"b.go\" tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"0.500\">
<testcase classname=\"b.go\" name=\"says &quot;&lt;no&gt;&quot;\" time=\"0.500\">
<failure message=\"a &amp; b ]]&gt; \u{fffd}[1m\">a &amp; b ]]&gt; \u{fffd}[1m\nmore</failure>
<system-out>creating pod a</system-out>
</testcase>
</testsuite>
</testsuites>
";
        assert_eq!(xml(&rows), expected);
    }
}
