//! `FBL_DEVICES`: which devices of the machine are registered, in which order. Pure.

/// Positions in `names` of the devices that a list asks for; a blank list asks for all.
///
/// An entry of the list (`1,nvidia`) is a number of a device, or a part of the names of those it means, in either case of letters. A
/// device may be named twice, and is then registered twice.
///
/// # Errors
/// The entry that means no device.
pub fn choose(list: &str, names: &[String]) -> Result<Vec<usize>, String> {
    if list.trim().is_empty() {
        return Ok((0..names.len()).collect());
    }
    let mut chosen = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let found = meant(entry, names);
        if found.is_empty() {
            return Err(format!(
                "FBL_DEVICES={list}: {entry:?} is neither a number below {} nor part of a device's name ({})",
                names.len(),
                names.join(", ")
            ));
        }
        chosen.extend(found);
    }
    Ok(chosen)
}

fn meant(entry: &str, names: &[String]) -> Vec<usize> {
    if entry.is_empty() {
        return Vec::new();
    }
    if let Some(index) = entry.parse().ok().filter(|&index: &usize| index < names.len()) {
        return vec![index];
    }
    let part = entry.to_lowercase();
    (0..names.len()).filter(|&index| names[index].to_lowercase().contains(&part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(list: &str) -> Result<Vec<usize>, String> {
        choose(list, &["NVIDIA GeForce RTX 4090", "NVIDIA H200", "llvmpipe"].map(str::to_owned))
    }

    #[test]
    fn numbers_and_parts_of_names_order_the_devices() {
        assert_eq!(chosen(""), Ok(vec![0, 1, 2]));
        assert_eq!(chosen(" "), Ok(vec![0, 1, 2]));
        assert_eq!(chosen("2, 0"), Ok(vec![2, 0]));
        assert_eq!(chosen("nvidia"), Ok(vec![0, 1]));
        assert_eq!(chosen("LLVM,h200"), Ok(vec![2, 1]));
        assert_eq!(chosen("0,0"), Ok(vec![0, 0]));
        assert_eq!(chosen("4090"), Ok(vec![0]), "a number beyond the devices is part of a name");
    }

    #[test]
    fn the_entry_that_means_nothing_is_named() {
        let why = chosen("0,radeon").expect_err("no such device");
        assert!(why.contains("\"radeon\"") && why.contains("below 3") && why.contains("llvmpipe"), "{why}");
        assert!(chosen("3").expect_err("counted from 0").contains("\"3\""));
        assert!(chosen("0,").expect_err("an empty entry").contains("\"\""));
    }
}
