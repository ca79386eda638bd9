//! Tables in Markdown, printed or put in their places in a page.

use std::fmt;

/// A table.
pub struct Table {
    /// By which a page names it.
    pub name: &'static str,
    /// Columns, by what is above them.
    pub head: Vec<String>,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(name: &'static str, head: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name, head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.head.len(), "a row of table {}", self.name);
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", self.head.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(self.head.len()))?;
        self.rows.iter().try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}

const END: &str = "<!-- end -->";

/// The page with these tables in their places; other tables and the words between stay.
///
/// # Errors
/// A place that does not end, or a table without a place.
pub fn update(page: &str, tables: &[Table]) -> Result<String, String> {
    tables.iter().try_fold(page.to_owned(), |page, table| {
        let start = format!("<!-- table: {} -->\n", table.name);
        let (before, rest) =
            page.split_once(&start).ok_or_else(|| format!("the page has no place for {}", table.name))?;
        let (_, after) = rest.split_once(END).ok_or_else(|| format!("the place for {} has no end", table.name))?;
        Ok(format!("{before}{start}{table}{END}{after}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("small", ["a", "b"]);
        table.row(["1".to_owned(), "2".to_owned()]);
        table
    }

    #[test]
    fn words_around_a_table_stay() {
        let page = "x\n<!-- table: small -->\nold\n<!-- end -->\ny\n<!-- table: other -->\nkept\n<!-- end -->\n";
        let updated = update(page, &[table()]).unwrap();
        let want = page.replace("old\n", "| a | b |\n|---|---|\n| 1 | 2 |\n");
        assert_eq!(updated, want);
        assert_eq!(update(&updated, &[table()]).unwrap(), want, "a second time changes nothing");
    }

    #[test]
    fn a_table_without_a_place_is_refused() {
        assert!(update("x", &[table()]).unwrap_err().contains("no place for small"));
        assert!(update("<!-- table: small -->\n", &[table()]).unwrap_err().contains("no end"));
    }
}
