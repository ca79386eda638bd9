//! Lines that the suite's programs print.

use crate::report::{Outcome, Verdict};

/// Reads a program's lines one by one.
pub struct Reader {
    announces: bool,
    /// The case that was announced, and whether it has a verdict.
    current: Option<(String, bool)>,
}

impl Reader {
    /// Reads comparisons and support: one line a case.
    pub fn of_results() -> Self {
        Self { announces: false, current: None }
    }

    /// Reads gradients. A first line, which says OK, announces a case that is then computed; what follows on it is said of the sum of its
    /// results, with the parameters of the case, and where it fails in more than one line.
    pub fn of_gradients() -> Self {
        Self { announces: true, current: None }
    }

    /// The case on which a line gives a verdict.
    pub fn verdict(&mut self, line: &str) -> Option<(String, Verdict)> {
        let (name, verdict) = case_line(line)?;
        if !self.announces {
            return Some((name.to_owned(), verdict));
        }
        let parameters = |name: &str| name.find('(').map(|at| name[at..].to_owned());
        match &mut self.current {
            Some((case, told))
                if parameters(case) == parameters(name) && (!*told || verdict.outcome == Outcome::Failed) =>
            {
                *told = true;
                Some((case.clone(), verdict))
            }
            current if verdict.outcome == Outcome::Passed => {
                *current = Some((name.to_owned(), false));
                None
            }
            _ => Some((name.to_owned(), verdict)),
        }
    }

    /// The case that was announced and has no verdict yet.
    pub fn open(&self) -> Option<&str> {
        self.current.as_ref().filter(|(_, told)| !told).map(|(name, _)| name.as_str())
    }
}

/// A case and what the line says of it, or nothing where the line is about no case.
///
/// A line is `  OP(PARAMETERS): VERDICT`; what a comparison found wrong stands before it, what a gradient did, before the verdict's word.
fn case_line(line: &str) -> Option<(&str, Verdict)> {
    let end = line.rfind("): ")? + 1;
    let start = line[..end].rfind("  ").map(|at| at + 2)?;
    let name = &line[start..end];
    let op = crate::report::op(name);
    if op.is_empty() || !op.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let said = plain(&line[end + 2..]);
    let (outcome, said) = if let Some(detail) = said.strip_suffix("NOT SUPPORTED") {
        (Outcome::Unsupported, detail.to_owned())
    } else if said == "OK" || said == "SUPPORTED" {
        (Outcome::Passed, String::new())
    } else if let Some(detail) = said.strip_suffix("FAIL").or_else(|| said.strip_suffix("FAILED")) {
        (Outcome::Failed, detail.to_owned())
    } else if let Some(by) = said.strip_prefix("not supported") {
        (Outcome::Unsupported, by.to_owned())
    } else if said.starts_with("skipping") || said.starts_with("skipped") {
        (Outcome::Skipped, said)
    } else {
        return None;
    };
    let detail = [plain(&line[..start]), said.trim().to_owned()];
    let detail = detail.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("; ");
    Some((name, Verdict { outcome, detail }))
}

/// Number and name of the device that the lines after this one are about.
pub fn device_line(line: &str) -> Option<&str> {
    let (_, name) = line.strip_prefix("Backend ")?.split_once(": ")?;
    Some(name.trim())
}

/// Without colours and surrounding space.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += part.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> (Outcome, String) {
        let (name, verdict) = case_line(line).unwrap();
        assert_eq!(name, "ADD(type=f32,ne=[1,1,8,1],nf=1)");
        (verdict.outcome, verdict.detail)
    }

    #[test]
    fn verdicts_of_every_mode() {
        let line = |rest: &str| said(&format!("  ADD(type=f32,ne=[1,1,8,1],nf=1): {rest}"));
        assert_eq!(line("\u{1b}[1;32mOK\u{1b}[0m"), (Outcome::Passed, String::new()));
        assert_eq!(line("\u{1b}[1;32mSUPPORTED\u{1b}[0m"), (Outcome::Passed, String::new()));
        assert_eq!(line("\u{1b}[1;31mNOT SUPPORTED\u{1b}[0m"), (Outcome::Unsupported, String::new()));
        assert_eq!(line("not supported [X0] "), (Outcome::Unsupported, "[X0]".to_owned()));
        assert_eq!(
            line("skipping large tensors for speed "),
            (Outcome::Skipped, "skipping large tensors for speed".to_owned())
        );
        let failed = line("[ADD] MAA = 0.5 > 0.1 \u{1b}[1;31mFAIL\u{1b}[0m");
        assert_eq!(failed, (Outcome::Failed, "[ADD] MAA = 0.5 > 0.1".to_owned()));
    }

    #[test]
    fn what_a_comparison_found_stands_before_the_case() {
        let line = "[ADD] ERR = 1.5 > 0.1   ADD(type=f32,ne=[1,1,8,1],nf=1): \u{1b}[1;31mFAIL\u{1b}[0m";
        assert_eq!(said(line), (Outcome::Failed, "[ADD] ERR = 1.5 > 0.1".to_owned()));
    }

    #[test]
    fn a_gradient_is_announced_before_its_verdict() {
        let mut reader = Reader::of_gradients();
        let ok = "  ADD(1): \u{1b}[1;32mOK\u{1b}[0m";
        for outcome in [Outcome::Passed; 2] {
            assert_eq!(reader.verdict(ok), None);
            assert_eq!(reader.open(), Some("ADD(1)"));
            assert_eq!(reader.verdict(ok).unwrap().1.outcome, outcome);
            assert_eq!(reader.open(), None);
        }
        assert_eq!(reader.verdict("  ADD(2): not supported [x]").unwrap().0, "ADD(2)");
        assert_eq!(Reader::of_results().verdict(ok).unwrap().0, "ADD(1)");
    }

    #[test]
    fn a_gradient_is_said_of_the_sum() {
        let mut reader = Reader::of_gradients();
        assert_eq!(reader.verdict("  SQR(1): OK"), None);
        let (name, verdict) = reader.verdict("  SUM(1): [SUM] MAA = 0.5 > 0.1 FAIL").unwrap();
        assert_eq!((name.as_str(), verdict.detail.as_str()), ("SQR(1)", "[SUM] MAA = 0.5 > 0.1"));
        assert_eq!(reader.verdict("  SUM(1): compare failed FAIL").unwrap().0, "SQR(1)");
        assert_eq!(reader.verdict("  SUM(1): OK"), None, "the sum's own case, with the same parameters");
        assert_eq!(reader.open(), Some("SUM(1)"));
    }

    #[test]
    fn other_lines_are_no_cases() {
        for line in
            ["", "  12/12 tests passed", "  ADD(type=f32)", "Backend 2/2: X0", "  Backend X0: \u{1b}[1;32mOK\u{1b}[0m"]
        {
            assert_eq!(case_line(line), None, "{line}");
        }
        assert_eq!(device_line("Backend 2/3: X0\n"), Some("X0"));
        assert_eq!(device_line("  Backend X0: OK"), None);
    }
}
