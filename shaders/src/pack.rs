//! Modules packed to a seventh of their size. Most words of a module name an id that was named shortly before, under
//! another number in every module; so a word becomes its rank among the last distinct words, which repeats where the
//! id does not, and DEFLATE takes it from there. Each module is a stream of its own: one window does not reach over
//! several, and a plan asks for few of them.
//!
//! The stream, in zlib's format with its checksum: a byte per word, its rank from 1 on or 0 where it is not ranked;
//! then the words that were not ranked, each as its distance from the one before, lowest bytes of all first.

use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

/// The most that a byte can rank beside 0.
const RANKS: usize = 255;

const LEVEL: u8 = 9;

/// The last distinct words, latest first.
struct Recent([u32; RANKS]);

impl Recent {
    fn new() -> Self {
        Self([0; RANKS])
    }

    /// Moves `word` to the front over those before `place`; the word at `place` goes.
    fn promote(&mut self, place: usize, word: u32) {
        self.0.copy_within(..place, 1);
        self.0[0] = word;
    }
}

/// Packs the words of a module.
pub fn pack(words: &[u32]) -> Vec<u8> {
    let (mut recent, mut last) = (Recent::new(), 0);
    let mut stream = Vec::with_capacity(2 * words.len());
    let mut unranked = Vec::new();
    for &word in words {
        let place = recent.0.iter().position(|&other| other == word);
        stream.push(place.map_or(0, |place| place as u8 + 1));
        recent.promote(place.unwrap_or(RANKS - 1), word);
        if place.is_none() {
            unranked.push(word.wrapping_sub(last).to_le_bytes());
            last = word;
        }
    }
    for byte in 0..4 {
        stream.extend(unranked.iter().map(|distance| distance[byte]));
    }
    compress_to_vec_zlib(&stream, LEVEL)
}

/// The `words` words that were packed; an error says how the bytes are damaged.
pub fn unpack(packed: &[u8], words: usize) -> Result<Vec<u32>, String> {
    let stream = decompress_to_vec_zlib_with_limit(packed, 5 * words).map_err(|e| e.to_string())?;
    let (ranks, unranked) = stream.split_at_checked(words).ok_or("fewer words than were packed")?;
    let count = ranks.iter().filter(|&&rank| rank == 0).count();
    if unranked.len() != 4 * count {
        return Err(format!("{count} words are not ranked, {} bytes are there for them", unranked.len()));
    }
    let mut distances = (0..count).map(|i| u32::from_le_bytes([0, 1, 2, 3].map(|byte| unranked[byte * count + i])));
    let (mut recent, mut last) = (Recent::new(), 0u32);
    let word = |&rank: &u8| {
        let place = match rank {
            0 => {
                last = last.wrapping_add(distances.next().unwrap_or_default());
                RANKS - 1
            }
            _ => usize::from(rank) - 1,
        };
        let word = if rank == 0 { last } else { recent.0[place] };
        recent.promote(place, word);
        word
    };
    Ok(ranks.iter().map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words around what the format tells apart: none, repeated, more distinct ones than ranks, distances that wrap.
    fn samples() -> [Vec<u32>; 6] {
        [
            vec![],
            vec![0],
            vec![u32::MAX, 0, u32::MAX, 1, u32::MAX],
            (0..1000).map(|i| i % 254 + 1).collect(),
            (0..1000).map(|i| i % 256 + 1).collect(),
            (0..1000u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect(),
        ]
    }

    #[test]
    fn packing_can_be_undone() {
        for words in samples() {
            assert_eq!(unpack(&pack(&words), words.len()), Ok(words));
        }
    }

    #[test]
    fn a_word_seen_again_takes_a_byte() {
        let [.., repeated, cycle, _] = samples();
        let len = |words: &[u32]| decompress_to_vec_zlib_with_limit(&pack(words), 5000).unwrap().len();
        // 254 distinct words are ranked from their second time on; 256 in turn never are.
        assert_eq!(len(&repeated), 1000 + 4 * 254);
        assert_eq!(len(&cycle), 1000 + 4 * 1000);
    }

    #[test]
    fn damage_is_an_error_or_harmless() {
        for words in samples() {
            let packed = pack(&words);
            for (place, bit) in (0..packed.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
                let mut damaged = packed.clone();
                damaged[place] ^= 1 << bit;
                assert!(
                    unpack(&damaged, words.len()).is_ok_and(|found| found == words)
                        || unpack(&damaged, words.len()).is_err()
                );
            }
            assert!(unpack(&packed[..packed.len() - 1], words.len()).is_err());
            assert!(unpack(&packed, words.len() + 1).is_err());
            if !words.is_empty() {
                assert!(unpack(&packed, words.len() - 1).is_err());
            }
        }
    }
}
