//! From metadata to a configuration.

use fblayout::graph::RopeMode;

use super::{Gguf, GgufError, ROPE_FREQUENCIES, Value};
use crate::{Config, Gate, Llama3Scaling, Rotary, Sliding};

/// What an architecture fixes that its files do not say.
struct Family {
    name: &'static str,
    rope: RopeMode,
    gate: Gate,
    scaled_embedding: bool,
    /// Layers per global layer, and the base of the angles in the others where it is another.
    sliding: Option<(u32, Option<f32>)>,
}

const FAMILIES: [Family; 5] = [
    Family { name: "llama", rope: RopeMode::Normal, gate: Gate::SwiGlu, scaled_embedding: false, sliding: None },
    Family { name: "qwen2", rope: RopeMode::Neox, gate: Gate::SwiGlu, scaled_embedding: false, sliding: None },
    Family { name: "qwen3", rope: RopeMode::Neox, gate: Gate::SwiGlu, scaled_embedding: false, sliding: None },
    Family {
        name: "gemma2",
        rope: RopeMode::Neox,
        gate: Gate::GeGlu,
        scaled_embedding: true,
        sliding: Some((2, None)),
    },
    Family {
        name: "gemma3",
        rope: RopeMode::Neox,
        gate: Gate::GeGlu,
        scaled_embedding: true,
        sliding: Some((6, Some(10_000.0))),
    },
];

/// Stretching of Llama 3.2. A file has the divisors themselves, as a tensor; a plan depends on neither.
const LLAMA_3: Llama3Scaling = Llama3Scaling { factor: 32.0, low: 1.0, high: 4.0, context: 8192 };

impl Gguf {
    /// The configuration that the metadata and the presence of tensors describe.
    ///
    /// # Errors
    /// The key that is missing, or has a value of a model that cannot be built, with the rule.
    pub fn config(&self) -> Result<Config, GgufError> {
        let family = self.family()?;
        let keys = Keys { gguf: self, architecture: family.name };
        let [layers, width, context] = ["block_count", "embedding_length", "context_length"].map(|key| keys.count(key));
        let (layers, width) = (layers?, width?);
        let last = format!("blk.{}.attn_norm.weight", layers - 1);
        if !self.tensors.contains_key(&last) {
            return keys.fail("block_count", format!("is {layers}, but there is no tensor {last}"));
        }
        let heads = keys.per_layer("attention.head_count")?;
        let kv_heads = match keys.has("attention.head_count_kv") {
            true => keys.per_layer("attention.head_count_kv")?,
            false => heads,
        };
        if !heads.is_multiple_of(kv_heads) {
            return keys.fail(
                "attention.head_count_kv",
                format!("{kv_heads} heads of keys do not divide {heads} heads of queries"),
            );
        }
        let head_dim = match keys.has("attention.key_length") {
            true => keys.count("attention.key_length")?,
            false if width.is_multiple_of(heads) => width / heads,
            false => {
                return keys.fail("attention.head_count", format!("{heads} heads do not divide the width {width}"));
            }
        };
        for key in ["attention.value_length", "rope.dimension_count"] {
            if keys.has(key) && keys.count(key)? != head_dim {
                return keys.fail(key, format!("is {}, must be the {head_dim} elements of a head", keys.count(key)?));
            }
        }
        if !head_dim.is_multiple_of(2) {
            return keys
                .fail("attention.key_length", format!("{head_dim} elements of a head are no whole pairs to rotate"));
        }
        if keys.has("expert_count") && keys.number("expert_count")? > 0.0 {
            return keys.fail("expert_count", "experts are not planned".into());
        }
        if let Some(Value::Text(kind)) = keys.get("rope.scaling.type")
            && kind != "none"
        {
            return keys.fail("rope.scaling.type", format!("is {kind:?}, must be \"none\""));
        }
        let scaling = self.tensors.contains_key(ROPE_FREQUENCIES).then_some(LLAMA_3);
        let has = |tensor: &str| self.tensors.contains_key(tensor);
        Ok(Config {
            name: family.name,
            layers,
            width,
            heads,
            kv_heads,
            head_dim,
            ffn: keys.per_layer("feed_forward_length")?,
            vocab: self.vocabulary()?,
            norm_eps: keys.number("attention.layer_norm_rms_epsilon")? as f32,
            rotary: Rotary {
                mode: family.rope,
                base: keys.number_or("rope.freq_base", 10_000.0)? as f32,
                context: context?,
                scaling,
            },
            sliding: match family.sliding {
                None => None,
                Some((period, local_base)) => {
                    Some(Sliding { window: keys.count("attention.sliding_window")?, period, local_base })
                }
            },
            qkv_bias: has("blk.0.attn_q.bias"),
            qk_norm: has("blk.0.attn_q_norm.weight"),
            post_norms: has("blk.0.post_attention_norm.weight"),
            gate: family.gate,
            score_cap: keys.cap("attn_logit_softcapping")?,
            logit_cap: keys.cap("final_logit_softcapping")?,
            tied_head: !has("output.weight"),
            scaled_embedding: family.scaled_embedding,
        })
    }

    fn family(&self) -> Result<&'static Family, GgufError> {
        const KEY: &str = "general.architecture";
        let known = FAMILIES.each_ref().map(|f| f.name).join(", ");
        let fail = |rule| Err(GgufError::Key { key: KEY.into(), rule });
        match self.keys.get(KEY) {
            None => fail("missing".into()),
            Some(Value::Text(name)) => match FAMILIES.iter().find(|f| f.name == name) {
                Some(family) => Ok(family),
                None => fail(format!("is {name:?}, must be one of {known}")),
            },
            Some(_) => fail(format!("must be a text, one of {known}")),
        }
    }

    /// Rows of the embedding table.
    fn vocabulary(&self) -> Result<u32, GgufError> {
        let name = "token_embd.weight".to_owned();
        match self.tensors.get(&name) {
            Some(table) => Ok(table.shape[1]),
            None => Err(GgufError::Tensor { name, rule: "missing".into() }),
        }
    }
}

/// The keys of one architecture.
struct Keys<'a> {
    gguf: &'a Gguf,
    architecture: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn fail<T>(&self, key: &str, rule: String) -> Result<T, GgufError> {
        Err(GgufError::Key { key: self.name(key), rule })
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.gguf.keys.get(&self.name(key))
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn count_of(&self, key: &str, n: i128) -> Result<u32, GgufError> {
        match u32::try_from(n) {
            Ok(n) if (1..=1 << 24).contains(&n) => Ok(n),
            _ => self.fail(key, format!("is {n}, must be between 1 and 2^24")),
        }
    }

    /// A positive number of things.
    fn count(&self, key: &str) -> Result<u32, GgufError> {
        match self.get(key) {
            Some(&Value::Integer(n)) => self.count_of(key, n),
            Some(_) => self.fail(key, "must be an integer".into()),
            None => self.fail(key, "missing".into()),
        }
    }

    /// The same in every layer, whether it is said once or for each.
    fn per_layer(&self, key: &str) -> Result<u32, GgufError> {
        let Some(Value::Integers(layers)) = self.get(key) else { return self.count(key) };
        match layers.split_first() {
            Some((&first, rest)) if rest.iter().all(|&n| n == first) => self.count_of(key, first),
            _ => self.fail(key, "must be the same in every layer".into()),
        }
    }

    fn number(&self, key: &str) -> Result<f64, GgufError> {
        match self.get(key) {
            Some(&Value::Float(x)) if x.is_finite() => Ok(x),
            Some(&Value::Integer(n)) => Ok(n as f64),
            Some(_) => self.fail(key, "must be a finite number".into()),
            None => self.fail(key, "missing".into()),
        }
    }

    fn number_or(&self, key: &str, default: f64) -> Result<f64, GgufError> {
        if self.has(key) { self.number(key) } else { Ok(default) }
    }

    /// A soft cap; absent or 0 means none.
    fn cap(&self, key: &str) -> Result<Option<f32>, GgufError> {
        let cap = self.number_or(key, 0.0)?;
        if cap < 0.0 {
            self.fail(key, format!("is {cap}, must not be negative"))
        } else {
            Ok(Some(cap as f32).filter(|&c| c > 0.0))
        }
    }
}
