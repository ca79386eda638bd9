//! What is decided and what it takes, as pages: each is one file of HTML without anything from elsewhere, made of plain data.
//!
//! Figures are computed in Rust, with their units; a template only places them. The command line writes such pages, and hosts get them
//! through the C face.

pub mod plan;
pub mod roofline;
pub mod scale;
pub mod units;

use minijinja::Environment;
pub use minijinja::Error;
use minijinja::value::Serde;
use serde::Serialize;

/// The style of every page.
pub const STYLE: &str = include_str!("page.css");

/// A figure with its name, and a word on how it came about.
#[derive(Serialize)]
pub struct Fact {
    /// What it is.
    pub name: &'static str,
    /// The figure with its unit.
    pub value: String,
    /// Where it is from.
    pub note: String,
}

/// Fills a template, which may include `roofline.html`, the drawing of a [`roofline::Chart`] of that name.
///
/// # Errors
/// The template names what the page does not have.
pub fn render(template: &str, page: &impl Serialize) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.add_template("roofline.html", include_str!("roofline.html"))?;
    environment.add_template("page.html", template)?;
    environment.get_template("page.html")?.render(Serde(page))
}
