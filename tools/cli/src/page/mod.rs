//! What pages have in common: each is one file without anything from elsewhere, and appears whole or not at all.

mod output;
pub mod roofline;
pub mod scale;

use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;

pub use output::Output;

/// The style of every page.
pub const STYLE: &str = include_str!("page.css");

/// A figure with its name, and a word on how it came about.
#[derive(Serialize)]
pub struct Fact {
    pub name: &'static str,
    pub value: String,
    pub note: String,
}

/// Fills a template, which may include `roofline.html`, the drawing of a [`roofline::Chart`] of that name.
pub fn render(template: &str, page: &impl Serialize) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.add_template("roofline.html", include_str!("roofline.html"))?;
    environment.add_template("page.html", template)?;
    environment.get_template("page.html")?.render(Serde(page))
}
