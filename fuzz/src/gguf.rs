//! Files that say they are models: what is not one is refused, what is one is planned for.
#![no_main]

use std::io::Cursor;

use fblayout_models::{Gguf, Options, Training, loss_graph};
use libfuzzer_sys::fuzz_target;

/// Layers of a model whose graph is worth the time here.
const LARGEST: u32 = 64;

fuzz_target!(|file: &[u8]| {
    // A file may be cut off, or be longer than it says.
    for length in [file.len() as u64, file.len() as u64 / 2, u64::MAX] {
        let Ok(gguf) = Gguf::read(Cursor::new(file), length) else { continue };
        let Ok(config) = gguf.config() else { continue };
        if config.layers > LARGEST {
            continue;
        }
        if let Ok(mut model) = loss_graph(&config, &Options::new(1, 8, Training::Full)) {
            let _ = gguf.keep_types(&mut model);
            let _ = gguf.check(&model);
        }
    }
});
