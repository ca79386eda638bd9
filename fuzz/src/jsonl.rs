//! Lines of chat data: what is a dialogue is rendered by templates as models bring them, turn by turn, or refused in one line.
#![no_main]

/// What the chat module needs of the program's errors, without the engine behind them.
mod error {
    pub type Result<T> = std::result::Result<T, Error>;

    #[derive(Debug)]
    #[allow(dead_code, reason = "the program tells what failed")]
    pub enum Error {
        Template { origin: String, reason: String },
        Io(std::io::Error),
    }

    impl Error {
        pub fn io(_: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
            Self::Io
        }
    }
}
#[path = "../../tools/finetune/src/chat.rs"]
#[allow(dead_code, reason = "the program that it belongs to uses more of it")]
mod chat;

use chat::{Template, dialogue};
use error::Error;
use libfuzzer_sys::fuzz_target;

/// ChatML, and what others do: turns must alternate, texts are stripped and cut, tools are written as JSON.
const TEMPLATES: [Option<&str>; 4] = [
    None,
    Some(
        "{{ bos_token }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
         {{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role | upper }}] {{ m.content.strip() }}{{ eos_token }}\
         {% endfor %}{% if add_generation_prompt %}[ASSISTANT] {% endif %}",
    ),
    Some(
        "{% for m in messages %}{{ m | tojson }}{{ m.content[:8] | trim }}{{ m.content.split('</think>')[-1] }}{% endfor %}",
    ),
    Some(
        "{% for m in messages %}{{ m.content.replace('a', 'b').title() + m['role'] }}{{ messages[loop.index].content }}{% endfor %}",
    ),
];

fuzz_target!(|text: &[u8]| {
    let text = String::from_utf8_lossy(text);
    for line in text.lines() {
        let Ok(messages) = dialogue(line) else { continue };
        for source in TEMPLATES {
            let template = Template::choose(None, source, "<s>".into(), "</s>".into()).expect("it compiles");
            let mut before = String::new();
            for turns in 0..=messages.len().min(4) {
                match template.render(&messages[..turns], turns % 2 == 1) {
                    Ok(text) if source.is_none() && turns % 2 == 0 => {
                        assert!(text.starts_with(&before), "ChatML only adds turns");
                        before = text;
                    }
                    Ok(_) => {}
                    Err(Error::Template { reason, .. }) => assert!(!reason.contains('\n'), "{reason}"),
                    Err(Error::Io(error)) => panic!("no file is read: {error}"),
                }
            }
        }
    }
});
