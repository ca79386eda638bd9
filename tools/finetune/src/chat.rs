//! Chat templates: dialogues to text, as the model saw them in training.

use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, ErrorKind, context};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Used when neither the model nor the user brings a template.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\
    {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// One turn of a dialogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

#[derive(Deserialize)]
struct Line {
    messages: Vec<Message>,
}

/// The dialogue that a line of JSONL holds.
pub fn dialogue(line: &str) -> serde_json::Result<Vec<Message>> {
    Ok(serde_json::from_str::<Line>(line)?.messages)
}

/// A compiled chat template.
pub struct Template {
    environment: Environment<'static>,
    origin: String,
    begin: String,
    end: String,
}

impl Template {
    /// The template of a file if there is one, else the model's, else ChatML. `begin` and `end` are the spellings of the
    /// tokens that templates know as `bos_token` and `eos_token`.
    pub fn choose(file: Option<&Path>, model: Option<&str>, begin: String, end: String) -> Result<Template> {
        match (file, model) {
            (Some(path), _) => {
                let source = std::fs::read_to_string(path).map_err(Error::io(path))?;
                Template::new(source, path.display().to_string(), begin, end)
            }
            (None, Some(source)) => Template::new(source.to_owned(), "of the model".to_owned(), begin, end),
            (None, None) => Template::new(CHATML.to_owned(), "ChatML".to_owned(), begin, end),
        }
    }

    /// Compiles a template with the settings and functions that chat templates are written for.
    fn new(source: String, origin: String, begin: String, end: String) -> Result<Template> {
        let mut environment = Environment::new();
        let fail = |e: &minijinja::Error| Error::Template { origin: origin.clone(), reason: one_line(e) };
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| fail(&e))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function(
            "raise_exception",
            |message: String| -> std::result::Result<String, minijinja::Error> {
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
            },
        );
        environment.add_function("strftime_now", |format: String| chrono::Local::now().format(&format).to_string());
        environment.add_filter("tojson", to_json);
        environment.add_template_owned("chat", source).map_err(|e| fail(&e))?;
        Ok(Template { environment, origin, begin, end })
    }

    /// Where the template came from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Renders a dialogue; with `answer_next` it ends where an assistant's answer begins.
    pub fn render(&self, messages: &[Message], answer_next: bool) -> Result<String> {
        let fail = |e: minijinja::Error| Error::Template { origin: self.origin.clone(), reason: one_line(&e) };
        let template = self.environment.get_template("chat").map_err(fail)?;
        let values = context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => answer_next,
            bos_token => self.begin.as_str(),
            eos_token => self.end.as_str(),
        };
        template.render(values).map_err(fail)
    }
}

/// JSON as Python writes it: a space after separators, nothing escaped for HTML; `indent` spreads it over lines.
fn to_json(value: Value, options: Kwargs) -> std::result::Result<String, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    options.assert_all_used()?;
    let text = match indent {
        Some(n) => write_json(&value, serde_json::ser::PrettyFormatter::with_indent(" ".repeat(n).as_bytes())),
        None => write_json(&value, PythonSpacing),
    };
    text.map_err(|e| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string()))
}

fn write_json(value: &Value, formatter: impl serde_json::ser::Formatter) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

struct PythonSpacing;

impl serde_json::ser::Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        out.write_all(b": ")
    }
}

fn one_line(error: &minijinja::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Vec<Message> {
        let say = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
        vec![say("user", "Hi"), say("assistant", "Ho")]
    }

    fn render(source: &str, messages: &[Message], answer_next: bool) -> Result<String> {
        Template::new(source.into(), "test".into(), "<s>".into(), "</s>".into())?.render(messages, answer_next)
    }

    #[test]
    fn chatml_is_the_fallback() {
        let template = Template::choose(None, None, String::new(), String::new()).unwrap();
        let text = template.render(&greeting()[..1], true).unwrap();
        assert_eq!(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    }

    #[test]
    fn python_habits_of_templates_work() {
        let source = "{{ bos_token }}{% for m in messages %}\n    {% if m['content'].strip().startswith('H') %}\n\
            [{{ m.role | upper }}] {{ m.content.strip() }}{{ eos_token }}\n    {% endif %}\n{% endfor %}";
        assert_eq!(render(source, &greeting(), false).unwrap(), "<s>[USER] Hi</s>\n[ASSISTANT] Ho</s>\n");
        let json = "{{ {'a': [1, '<b>'], 'c': none} | tojson }}";
        assert_eq!(render(json, &[], false).unwrap(), r#"{"a": [1, "<b>"], "c": null}"#);
        assert_eq!(render("{{ strftime_now('%Y') | length }}", &[], false).unwrap(), "4");
    }

    #[test]
    fn errors_are_one_line_and_name_the_origin() {
        for source in ["{% if %}", "{{ raise_exception('roles\nmust alternate') }}", "{{ messages[0].content.nope() }}"]
        {
            let message = render(source, &greeting(), false).unwrap_err().to_string();
            assert!(message.starts_with("chat template 'test': ") && !message.contains('\n'), "{message}");
        }
    }
}
