//! Attributes of an op as text: `n_dims=64 mode=neox`, each asked for by name, once.

/// An attribute that an op knows.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Attribute {
    /// Its name.
    pub name: &'static str,
    /// What its value is: a number, a count, a flag, a list of counts or a word.
    pub value: String,
    /// What it is where nothing is said; an attribute without one must be given.
    pub default: Option<String>,
}

/// What was given, and what was asked for.
pub(super) struct Attributes<'t> {
    /// Names and values; `None` where only the op's questions are of interest.
    given: Option<Vec<(&'t str, &'t str)>>,
    asked: Vec<Attribute>,
}

impl<'t> Attributes<'t> {
    /// Splits a text.
    pub fn parse(text: &'t str) -> Result<Self, String> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for word in text.split_ascii_whitespace() {
            let (name, value) =
                word.split_once('=').ok_or_else(|| format!("{word:?} is not of the form name=value"))?;
            if given.iter().any(|&(other, _)| other == name) {
                return Err(format!("attribute {name} is given twice"));
            }
            given.push((name, value));
        }
        Ok(Self { given: Some(given), asked: Vec::new() })
    }

    /// Answers every question with something, to learn what is asked.
    pub fn listening() -> Self {
        Self { given: None, asked: Vec::new() }
    }

    /// What was asked for.
    pub fn asked(self) -> Vec<Attribute> {
        self.asked
    }

    /// That nothing was given that nobody asked for.
    pub fn finish(&self) -> Result<(), String> {
        let known = |name: &str| self.asked.iter().any(|attribute| attribute.name == name);
        match self.given.iter().flatten().find(|(name, _)| !known(name)) {
            None => Ok(()),
            Some((name, _)) if self.asked.is_empty() => Err(format!("there is no attribute {name:?}, nor any other")),
            Some((name, _)) => {
                let known = self.asked.iter().map(|attribute| attribute.name).collect::<Vec<_>>().join(", ");
                Err(format!("there is no attribute {name:?}; known are {known}"))
            }
        }
    }

    /// The value of a name, or its default; `neutral` is what a listener gets where there is none.
    fn value<T>(
        &mut self,
        name: &'static str,
        what: &str,
        default: Option<(T, String)>,
        neutral: T,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        let (default, shown) = default.unzip();
        let needed = default.is_none();
        self.asked.push(Attribute { name, value: what.to_owned(), default: shown });
        let Some(given) = &self.given else { return Ok(default.unwrap_or(neutral)) };
        match given.iter().find(|(other, _)| *other == name) {
            Some((_, text)) => read(text).ok_or_else(|| format!("attribute {name} is {text:?}, must be {what}")),
            None if needed => Err(format!("attribute {name} is missing: {what}")),
            None => Ok(default.unwrap_or(neutral)),
        }
    }

    /// A number that must be given.
    pub fn number(&mut self, name: &'static str) -> Result<f32, String> {
        self.value(name, "a number", None, 1.0, read_number)
    }

    /// A number.
    pub fn number_or(&mut self, name: &'static str, default: f32) -> Result<f32, String> {
        self.value(name, "a number", Some((default, default.to_string())), 1.0, read_number)
    }

    /// A count that must be given.
    pub fn count(&mut self, name: &'static str) -> Result<u32, String> {
        self.value(name, "a whole number from 0 on", None, 1, |text| text.parse().ok())
    }

    /// A count.
    pub fn count_or(&mut self, name: &'static str, default: u32) -> Result<u32, String> {
        let default = Some((default, default.to_string()));
        self.value(name, "a whole number from 0 on", default, 1, |text| text.parse().ok())
    }

    /// Yes or no; no where nothing is said.
    pub fn flag(&mut self, name: &'static str) -> Result<bool, String> {
        self.value(name, "0 or 1", Some((false, "0".into())), false, |text| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })
    }

    /// Numbers, one for each of the first axes; those that are left out are `rest`, where `rest` is something.
    pub fn list<T, const N: usize>(&mut self, name: &'static str, rest: Option<T>) -> Result<[T; N], String>
    where
        T: Copy + Default + std::str::FromStr + std::fmt::Display,
    {
        let what = format!("{}{N} whole numbers with commas between", if rest.is_some() { "up to " } else { "" });
        let default = rest.map(|rest| ([rest; N], vec![rest.to_string(); N].join(",")));
        self.value(name, &what, default, [T::default(); N], |text| {
            let mut list = [rest.unwrap_or_default(); N];
            let words: Vec<&str> = text.split(',').collect();
            if words.len() > N || (rest.is_none() && words.len() < N) {
                return None;
            }
            for (place, word) in list.iter_mut().zip(words) {
                *place = word.parse().ok()?;
            }
            Some(list)
        })
    }

    /// One of a few words, the first where nothing is said.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&'static str, T)]) -> Result<T, String> {
        let what = format!("one of {}", words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "));
        let (first, value) = words[0];
        self.value(name, &what, Some((value, first.to_owned())), value, |text| {
            words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value)
        })
    }
}

/// A number that compares with others.
fn read_number(text: &str) -> Option<f32> {
    text.parse().ok().filter(|number: &f32| !number.is_nan())
}
