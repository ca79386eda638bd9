//! Clamps: a device's limits made stricter, from a preset's name or inline JSON.

use serde::{Deserialize, Serialize};

use super::{ByteDots, Limits, MatrixUnit, PRESETS, Preset, Products};

/// Upper bounds to put on a device's limits; an absent field leaves the device's own value.
///
/// A clamp only ever makes a limit stricter: sizes and counts take the minimum, the alignment takes the maximum, and
/// of the matrix units those stay that are named. The exceptions are `subgroup_size` and `products`, hints for schedules, which
/// are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsClamp {
    /// See [`Limits::max_image_2d`].
    pub max_image_2d: Option<u32>,
    /// See [`Limits::max_storage_buffer_range`].
    pub max_storage_buffer_range: Option<u64>,
    /// See [`Limits::max_bound_bytes`].
    pub max_bound_bytes: Option<u64>,
    /// See [`Limits::storage_buffer_alignment`]; a power of two.
    pub storage_buffer_alignment: Option<u64>,
    /// See [`Limits::max_allocation`].
    pub max_allocation: Option<u64>,
    /// See [`Limits::max_workgroup_invocations`].
    pub max_workgroup_invocations: Option<u32>,
    /// See [`Limits::max_workgroup_size`].
    pub max_workgroup_size: Option<[u32; 3]>,
    /// See [`Limits::max_workgroup_count`].
    pub max_workgroup_count: Option<[u32; 3]>,
    /// See [`Limits::max_shared_memory`].
    pub max_shared_memory: Option<u32>,
    /// See [`Limits::max_storage_bindings`].
    pub max_storage_bindings: Option<u32>,
    /// See [`Limits::subgroup_size`].
    pub subgroup_size: Option<u32>,
    /// See [`Limits::shuffle_width`].
    pub shuffle_width: Option<u32>,
    /// See [`Limits::matrix_units`]; `[]` switches them off.
    pub matrix_units: Option<Vec<MatrixUnit>>,
    /// See [`Limits::matrix_sums`].
    pub matrix_sums: Option<bool>,
    /// See [`Limits::byte_dots`]; `"none"` switches them off.
    pub byte_dots: Option<ByteDots>,
    /// See [`Limits::heap_bytes`].
    pub heap_bytes: Option<u64>,
    /// See [`Limits::products`].
    pub products: Option<Products>,
}

/// Why a text is no clamp.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClampError {
    /// Neither a preset nor JSON.
    #[error("no preset is named {name:?}; use one of {known}, or JSON such as {{\"heap_bytes\": 67108864}}")]
    UnknownPreset {
        /// The text.
        name: String,
        /// Names of the presets.
        known: String,
    },
    /// JSON that does not describe a clamp.
    #[error("the limits are no valid JSON clamp: {0}")]
    Json(String),
    /// An alignment that is no power of two.
    #[error("storage_buffer_alignment is {0}, but an alignment is a power of two")]
    Alignment(u64),
    /// Numbers of a tile that no shader takes.
    #[error(
        "products.tile: all are powers of two, quads_m and quads_n up to 8, buffers 1 or 2, quads_k no more than invocations"
    )]
    Tile,
    /// Numbers of a tile that no shader of matrix units takes.
    #[error(
        "products.matrices: tile_m and tile_n up to 8, lanes up to 64, buffers 1 or 2, quads_k a power of two from 2 on"
    )]
    MatrixTile,
    /// Numbers of a tile that no shader takes whose invocations go over k together.
    #[error("products.across: lanes from 1 on, lanes_k a power of two, quads_m 1 or 2, columns up to 16")]
    AcrossTile,
    /// Workgroups without invocations.
    #[error("{0} is 0, but a workgroup has invocations")]
    Empty(&'static str),
}

impl LimitsClamp {
    /// Reads a preset's name or, when the text starts with `{`, inline JSON with the fields of this struct.
    pub fn parse(text: &str) -> Result<Self, ClampError> {
        let text = text.trim();
        let clamp = if text.starts_with('{') {
            serde_json::from_str(text).map_err(|e| ClampError::Json(e.to_string()))?
        } else {
            Preset::find(text).map(|preset| preset.limits.clone()).ok_or_else(|| ClampError::UnknownPreset {
                name: text.to_owned(),
                known: PRESETS.each_ref().map(|preset| preset.name).join(", "),
            })?
        };
        if clamp.max_workgroup_invocations == Some(0) {
            return Err(ClampError::Empty("max_workgroup_invocations"));
        }
        if clamp.max_workgroup_size.is_some_and(|size| size.contains(&0)) {
            return Err(ClampError::Empty("max_workgroup_size"));
        }
        if clamp.products.and_then(|products| products.tile).is_some_and(|tile| !tile.is_sound()) {
            return Err(ClampError::Tile);
        }
        if clamp.products.and_then(|products| products.matrices).is_some_and(|tile| !tile.is_sound()) {
            return Err(ClampError::MatrixTile);
        }
        if clamp.products.and_then(|products| products.across).is_some_and(|tile| !tile.is_sound()) {
            return Err(ClampError::AcrossTile);
        }
        match clamp.storage_buffer_alignment {
            Some(a) if !a.is_power_of_two() => Err(ClampError::Alignment(a)),
            _ => Ok(clamp),
        }
    }

    /// Limits of a device that is not at hand: what this clamp states, and `open` for what it leaves open.
    pub fn complete(&self, open: &Limits) -> Limits {
        Limits {
            max_image_2d: self.max_image_2d.unwrap_or(open.max_image_2d),
            max_storage_buffer_range: self.max_storage_buffer_range.unwrap_or(open.max_storage_buffer_range),
            max_bound_bytes: self.max_bound_bytes.unwrap_or(open.max_bound_bytes),
            storage_buffer_alignment: self.storage_buffer_alignment.unwrap_or(open.storage_buffer_alignment),
            max_allocation: self.max_allocation.unwrap_or(open.max_allocation),
            max_workgroup_invocations: self.max_workgroup_invocations.unwrap_or(open.max_workgroup_invocations),
            max_workgroup_size: self.max_workgroup_size.unwrap_or(open.max_workgroup_size),
            max_workgroup_count: self.max_workgroup_count.unwrap_or(open.max_workgroup_count),
            max_shared_memory: self.max_shared_memory.unwrap_or(open.max_shared_memory),
            max_storage_bindings: self.max_storage_bindings.unwrap_or(open.max_storage_bindings),
            subgroup_size: self.subgroup_size.unwrap_or(open.subgroup_size),
            shuffle_width: self.shuffle_width.unwrap_or(open.shuffle_width),
            matrix_units: self.matrix_units.as_ref().unwrap_or(&open.matrix_units).clone(),
            matrix_sums: self.matrix_sums.unwrap_or(open.matrix_sums),
            byte_dots: self.byte_dots.unwrap_or(open.byte_dots),
            heap_bytes: self.heap_bytes.unwrap_or(open.heap_bytes),
            products: self.products.unwrap_or(open.products),
        }
    }

    /// The limits with this clamp applied.
    pub fn apply(&self, limits: &Limits) -> Limits {
        fn lower<T: Ord + Copy>(value: T, clamp: Option<T>) -> T {
            clamp.map_or(value, |c| value.min(c))
        }
        fn lower3(value: [u32; 3], clamp: Option<[u32; 3]>) -> [u32; 3] {
            clamp.map_or(value, |c| std::array::from_fn(|i| value[i].min(c[i])))
        }
        let named = |unit: &MatrixUnit| self.matrix_units.as_ref().is_none_or(|units| units.contains(unit));
        Limits {
            max_image_2d: lower(limits.max_image_2d, self.max_image_2d),
            max_storage_buffer_range: lower(limits.max_storage_buffer_range, self.max_storage_buffer_range),
            max_bound_bytes: lower(limits.max_bound_bytes, self.max_bound_bytes),
            storage_buffer_alignment: limits
                .storage_buffer_alignment
                .max(self.storage_buffer_alignment.unwrap_or(limits.storage_buffer_alignment)),
            max_allocation: lower(limits.max_allocation, self.max_allocation),
            max_workgroup_invocations: lower(limits.max_workgroup_invocations, self.max_workgroup_invocations),
            max_workgroup_size: lower3(limits.max_workgroup_size, self.max_workgroup_size),
            max_workgroup_count: lower3(limits.max_workgroup_count, self.max_workgroup_count),
            max_shared_memory: lower(limits.max_shared_memory, self.max_shared_memory),
            max_storage_bindings: lower(limits.max_storage_bindings, self.max_storage_bindings),
            subgroup_size: self.subgroup_size.unwrap_or(limits.subgroup_size),
            shuffle_width: lower(limits.shuffle_width, self.shuffle_width),
            matrix_units: limits.matrix_units.iter().copied().filter(|unit| named(unit)).collect(),
            matrix_sums: lower(limits.matrix_sums, self.matrix_sums),
            byte_dots: lower(limits.byte_dots, self.byte_dots),
            heap_bytes: lower(limits.heap_bytes, self.heap_bytes),
            products: self.products.unwrap_or(limits.products),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{MatrixType, SchedulesOff};

    fn unit(factors: MatrixType, k: u32) -> MatrixUnit {
        MatrixUnit { factors, m: 16, n: 16, k, subgroup: 32, max_invocations: 1024 }
    }

    fn roomy() -> Limits {
        Limits {
            max_image_2d: 32768,
            max_storage_buffer_range: 1 << 32,
            max_bound_bytes: u64::MAX,
            storage_buffer_alignment: 16,
            max_allocation: 1 << 33,
            max_workgroup_invocations: 1024,
            max_workgroup_size: [1024, 1024, 64],
            max_workgroup_count: [1 << 31, 65535, 65535],
            max_shared_memory: 49152,
            max_storage_bindings: 1 << 20,
            subgroup_size: 32,
            shuffle_width: 32,
            matrix_units: vec![unit(MatrixType::F16, 16), unit(MatrixType::F16, 8), unit(MatrixType::Bf16, 16)],
            matrix_sums: true,
            byte_dots: ByteDots::Accelerated,
            heap_bytes: 1 << 34,
            products: Products::default(),
        }
    }

    #[test]
    fn an_empty_clamp_changes_nothing() {
        assert_eq!(LimitsClamp::parse("{}").unwrap().apply(&roomy()), roomy());
    }

    #[test]
    fn a_clamp_never_loosens() {
        let wide = LimitsClamp {
            max_image_2d: Some(u32::MAX),
            max_workgroup_size: Some([u32::MAX; 3]),
            storage_buffer_alignment: Some(1),
            heap_bytes: Some(u64::MAX),
            ..LimitsClamp::default()
        };
        assert_eq!(wide.apply(&roomy()), roomy());
    }

    #[test]
    fn a_completed_clamp_keeps_what_it_states() {
        let stated =
            r#"{"max_image_2d": 65536, "storage_buffer_alignment": 4, "max_workgroup_size": [2048, 2048, 64]}"#;
        let limits = LimitsClamp::parse(stated).unwrap().complete(&roomy());
        let want = Limits {
            max_image_2d: 65536,
            storage_buffer_alignment: 4,
            max_workgroup_size: [2048, 2048, 64],
            ..roomy()
        };
        assert_eq!(limits, want);
    }

    #[test]
    fn inline_json_sets_the_named_fields_only() {
        let clamped = LimitsClamp::parse(r#" {"heap_bytes": 67108864, "max_workgroup_size": [64, 2048, 1]} "#)
            .unwrap()
            .apply(&roomy());
        assert_eq!(
            clamped,
            Limits { heap_bytes: 67108864, max_workgroup_size: [64, 1024, 1], ..roomy() },
            "other fields keep the device's values"
        );
    }

    #[test]
    fn matrix_units_that_are_not_named_go() {
        let units = |text: &str| LimitsClamp::parse(text).unwrap().apply(&roomy()).matrix_units;
        assert_eq!(units("{}"), roomy().matrix_units);
        assert_eq!(units(r#"{"matrix_units": []}"#), []);
        // As `doctor` prints them; what the device does not have is not lent to it.
        let printed = serde_json::to_string(&[unit(MatrixType::Bf16, 16), unit(MatrixType::Bf16, 64)]).unwrap();
        assert!(printed.contains(r#""factors":"bf16","m":16,"n":16,"k":16,"subgroup":32"#), "{printed}");
        assert_eq!(units(&format!(r#"{{"matrix_units": {printed}}}"#)), [unit(MatrixType::Bf16, 16)]);
        for phone in ["adreno-830", "adreno-730", "mali-g715", "mali-g925", "vulkan-minimum"] {
            assert_eq!(units(phone), [], "{phone}");
        }
        let field = LimitsClamp::parse(r#"{"matrix_units": [{"m": 16}]}"#).unwrap_err().to_string();
        assert!(field.contains("factors"), "{field}");
    }

    #[test]
    fn byte_dots_are_switched_off_and_not_lent() {
        let dots =
            |text: &str, byte_dots| LimitsClamp::parse(text).unwrap().apply(&Limits { byte_dots, ..roomy() }).byte_dots;
        assert_eq!(dots(r#"{"byte_dots": "none"}"#, ByteDots::Accelerated), ByteDots::None);
        assert_eq!(dots(r#"{"byte_dots": "accelerated"}"#, ByteDots::Emulated), ByteDots::Emulated);
        assert_eq!(dots("vulkan-minimum", ByteDots::Accelerated), ByteDots::None);
        assert_eq!(dots("h200", ByteDots::Accelerated), ByteDots::Accelerated);
    }

    #[test]
    fn schedules_are_switched_off_by_name() {
        let off =
            LimitsClamp::parse(r#"{"products": {"off": {"staged": true}}}"#).unwrap().apply(&roomy()).products.off;
        assert_eq!(off, SchedulesOff { staged: true, ..SchedulesOff::default() });
    }

    #[test]
    fn every_preset_parses_by_name_and_is_idempotent() {
        for name in PRESETS.each_ref().map(|preset| preset.name) {
            let clamp = LimitsClamp::parse(name).unwrap();
            let once = clamp.apply(&roomy());
            assert_ne!(once, roomy(), "{name} clamps nothing");
            assert_eq!(clamp.apply(&once), once, "{name}");
        }
    }

    #[test]
    fn bad_texts_name_the_thing() {
        let unknown = LimitsClamp::parse("adreno-99").unwrap_err().to_string();
        assert!(unknown.contains("adreno-99") && unknown.contains("adreno-830"), "{unknown}");
        let field = LimitsClamp::parse(r#"{"heap_byte": 1}"#).unwrap_err().to_string();
        assert!(field.contains("heap_byte"), "{field}");
        let tile = r#"{"products": {"schedule": "staged", "tile": {"lanes_m": 24}}}"#;
        assert_eq!(LimitsClamp::parse(tile).unwrap_err(), ClampError::Tile);
        let off = LimitsClamp::parse(r#"{"products": {"off": {"direct": true}}}"#).unwrap_err().to_string();
        assert!(off.contains("direct") && off.contains("across"), "{off}");
        assert_eq!(LimitsClamp::parse(r#"{"storage_buffer_alignment": 48}"#).unwrap_err(), ClampError::Alignment(48),);
    }
}
