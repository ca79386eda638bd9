//! A dispatch's constants, in words.

use super::addressing::constant;
use super::dispatch::{BOX, LOCAL_SIZE, TILE_AXIS, TILE_ROWS};
use super::gemm::{REDUCE, Schedule, Unit};
use super::operand::FIRST_ID;
use crate::device::{MatrixType, TestedSchedule};

/// First constant id of an op's own parameters.
const PARAMETERS: u32 = 16;

/// The schedule of a product, of any other dispatch nothing.
fn product(shader: &str, constants: &[(u32, u32)]) -> Option<Schedule> {
    Schedule::of(shader, constants).filter(|_| shader.starts_with("gemm"))
}

/// Which of the schedules that devices are tested for a dispatch has, if it is one of a product.
pub(crate) fn tested_schedule(shader: &str, constants: &[(u32, u32)]) -> Option<TestedSchedule> {
    product(shader, constants).map(|schedule| schedule.tested())
}

/// The type that matrix units multiply in a shader, and how many of their products are one: three of factors in parts. Nothing where it
/// computes without.
pub(crate) fn matrix_products(shader: &str) -> Option<(MatrixType, u32)> {
    fblayout_shaders::get(shader).filter(|shader| shader.matrix)?;
    let factors = if shader.contains("_bf16") { MatrixType::Bf16 } else { MatrixType::F16 };
    Some((factors, if shader.contains("_parted") { 3 } else { 1 }))
}

/// How a dispatch is spread over invocations.
pub fn schedule_in_words(shader: &str, constants: &[(u32, u32)], groups: [u32; 3]) -> String {
    let get = |id| constant(constants, id).unwrap_or(1);
    let workgroups = times(&groups);
    let size = get(LOCAL_SIZE);
    let product = product(shader, constants);
    let Some(Schedule { tile_m, tile_n, lanes_m, lanes_n, lanes_k, parts, share, step_n, dots, stage }) = product
    else {
        let extents = [0, 1, 2, 3].map(|axis| get(BOX + axis));
        let rows = match get(TILE_ROWS) {
            1 => String::new(),
            rows => format!(", {rows} rows of axis {} side by side", get(TILE_AXIS)),
        };
        return format!("{workgroups} workgroups of {size} invocations, over {} texels{rows}", times(&extents));
    };
    let (who, unit) = match stage.and_then(|stage| stage.unit) {
        Some(unit) => ("subgroups", [unit.shape[0], unit.shape[1]]),
        None => ("invocations", [4, 1]),
    };
    let sums = format!("{} x {}", unit[0] * tile_m, unit[1] * tile_n);
    let mut words = format!(
        "{workgroups} workgroups of {lanes_m} x {lanes_n} {who}, each with {sums} sums over axis {}",
        get(REDUCE)
    );
    if parts > 1 {
        words += &format!(", in {parts} parts");
    }
    if lanes_k > 1 {
        words += &format!(", {lanes_k} times along it");
    }
    if let Some(stage) = stage {
        words += &format!(", from {} tiles of {} in shared memory", stage.buffers, 4 * stage.quads_k);
        if let Some(Unit { factors, pieces, shape: [m, n, k], .. }) = stage.unit {
            words += &format!(", by matrix units of {m} x {n} x {k} {factors:?}");
            if pieces > 1 {
                words += &format!(" in {pieces} parts");
            }
        }
    }
    if dots {
        words += ", the right factor rounded to bytes";
    }
    if step_n > 1 {
        words += &format!(", columns {step_n} apart");
    }
    if share > 1 {
        words += &format!(", {share} of them share fetches by shuffles");
    }
    words
}

/// The op's own parameters of a dispatch: constant ids and bits.
pub fn parameters(constants: &[(u32, u32)]) -> impl Iterator<Item = (u32, u32)> {
    constants.iter().copied().filter(|(id, _)| (PARAMETERS..FIRST_ID).contains(id))
}

/// Extents as a product, without the trailing ones.
fn times(extents: &[u32]) -> String {
    let last = extents.iter().rposition(|&n| n > 1).unwrap_or(0);
    let factors: Vec<String> = extents[..=last].iter().map(u32::to_string).collect();
    factors.join(" x ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_told_with_their_numbers() {
        let product = [(0, 64), (3, 2), (4, 4), (5, 16), (6, 4), (7, 3), (10, 4), (16, 1), (64, 0)];
        assert_eq!(
            schedule_in_words("gemm", &product, [5, 7, 1]),
            "5 x 7 workgroups of 16 x 4 invocations, each with 8 x 4 sums over axis 1, in 3 parts, columns 4 apart"
        );
        let rows = [(0, 32), (3, 1), (4, 4), (5, 9), (6, 8), (7, 1), (8, 1), (16, 7)];
        assert_eq!(
            schedule_in_words("rms_norm", &rows, [2, 1, 1]),
            "2 workgroups of 32 invocations, over 9 x 8 texels, 4 rows of axis 1 side by side"
        );
        assert!(parameters(&product).eq([(16, 1)]) && parameters(&rows).eq([(16, 7)]));
    }
}
