//! Dialogues to supervised tokens.

mod common;

use common::{Bench, dialogue};
use fblayout_finetune::chat::{Message, Template};
use fblayout_finetune::dataset::{Dataset, Skip};
use fblayout_finetune::spans::Encoder;
use ggml_host::llama::Model;

/// A template with other markers, in which an assistant's turn ends without a token that ends generation.
const PLAIN: &str = "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}A: {{ m.content }};{% else %}Q: {{ m.content }} {% endif %}{% endfor %}{% if add_generation_prompt %}A:{% endif %}";

fn with_encoder(template: Option<&str>, test: impl FnOnce(&Encoder<'_>, &Bench)) {
    let bench = Bench::new();
    let model = Model::load_vocabulary(&bench.path("model.gguf")).unwrap();
    let vocabulary = model.vocabulary();
    let template = Template::choose(None, template, vocabulary.spelling(1), vocabulary.spelling(2)).unwrap();
    test(&Encoder { vocabulary, template }, &bench);
}

fn say(role: &str, content: &str) -> Message {
    Message { role: role.to_owned(), content: content.to_owned() }
}

/// What the supervised tokens say, one text per unbroken run, control tokens written out.
fn learned(encoder: &Encoder<'_>, messages: &[Message]) -> Vec<String> {
    let encoded = encoder.encode(messages).unwrap();
    let mut runs: Vec<Vec<u8>> = Vec::new();
    let mut inside = false;
    for (&token, &supervised) in encoded.tokens.iter().zip(&encoded.supervised) {
        if supervised {
            if !inside {
                runs.push(Vec::new());
            }
            runs.last_mut().unwrap().extend(encoder.vocabulary.piece(token, true));
        }
        inside = supervised;
    }
    runs.into_iter().map(|run| String::from_utf8(run).unwrap()).collect()
}

#[test]
fn exactly_what_the_assistant_says_is_learned() {
    with_encoder(None, |encoder, _| {
        let messages = [
            say("system", "be kind"),
            say("user", "the thing? assistant"),
            say("assistant", "hé, in the hall\nassistant\n"),
            say("user", "and?"),
            say("assistant", "no"),
        ];
        assert_eq!(learned(encoder, &messages), ["hé, in the hall\nassistant\n<|im_end|>", "no<|im_end|>"]);
    });
    with_encoder(Some(PLAIN), |encoder, _| {
        let messages = [say("user", "A: hm"), say("assistant", "A: he"), say("user", "x"), say("assistant", "in")];
        assert_eq!(learned(encoder, &messages), [" A: he;", " in;"]);
        let first = encoder.encode(&messages).unwrap().tokens[..2].to_vec();
        assert_eq!(first.iter().filter(|&&t| t == 1).count(), 1, "the template's own begin token is the only one");
    });
}

#[test]
fn a_template_that_rewrites_earlier_turns_is_refused() {
    let source = "{% for m in messages %}{{ m.role }}{{ m.content if loop.last else '...' }}{% endfor %}\
        {% if add_generation_prompt %}assistant{% endif %}";
    with_encoder(Some(source), |encoder, _| {
        let messages = [say("user", "a"), say("assistant", "b"), say("user", "c"), say("assistant", "d")];
        let reason = encoder.encode(&messages).map(|_| ()).unwrap_err();
        assert!(reason.contains("turn 2"), "{reason}");
    });
}

#[test]
fn lines_left_out_are_accounted_for() {
    with_encoder(None, |encoder, bench| {
        let good = dialogue("hi", "ho");
        let only_user = r#"{"messages": [{"role": "user", "content": "hello?"}]}"#;
        let text =
            [&good, "", "{", &dialogue("x", &"ha ".repeat(99)), only_user, &dialogue("x", " "), &good].join("\n");
        let path = bench.path("input.jsonl");
        std::fs::write(&path, text).unwrap();
        let set = Dataset::read(Some(&path), encoder, 64).unwrap();
        assert_eq!(set.samples.len(), 2);
        assert_eq!(set.first_question.as_deref(), Some("hi"));
        let kinds: Vec<(usize, u8)> = set
            .skipped
            .iter()
            .map(|(line, why)| match why {
                Skip::Malformed(_) => (*line, 0),
                Skip::TooLong(_) => (*line, 1),
                Skip::Empty => (*line, 2),
            })
            .collect();
        assert_eq!(kinds, [(3, 0), (4, 1), (5, 2), (6, 2)]);
        let account = set.account(64);
        for part in ["6 lines: 2 used", "1 malformed (line 3: ", "1 longer than 64 tokens (line 4: ", "(line 5, 6)"] {
            assert!(account.contains(part), "{part}: {account}");
        }
        // Shifted by one: the row before a token predicts it.
        let sample = &set.samples[0];
        let says: Vec<u8> = sample.targets().flat_map(|(_, t)| encoder.vocabulary.piece(t, true)).collect();
        assert_eq!(String::from_utf8(says).unwrap(), "ho<|im_end|>");
        let encoded = encoder.encode(&[say("user", "hi"), say("assistant", "ho")]).unwrap();
        assert!(sample.targets().all(|(row, target)| encoded.tokens[row + 1] == target));
    });
}

#[test]
fn the_built_in_data_fits_its_template() {
    with_encoder(None, |encoder, _| {
        let set = Dataset::read(None, encoder, 4096).unwrap();
        assert!(set.samples.len() >= 100 && set.skipped.is_empty(), "{}", set.account(4096));
    });
}
