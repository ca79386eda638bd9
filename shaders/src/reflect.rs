//! Reads from a SPIR-V module what the pipeline needs to know of it: bindings, specialization constants, matrix units, integer dots.

/// Kind of resource a shader binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingKind {
    /// Storage buffer.
    Buffer,
    /// Storage image.
    Image,
}

/// What a module declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reflection {
    /// Bindings of descriptor set 0, sorted by number.
    pub bindings: Vec<(u32, BindingKind)>,
    /// Ids of the specialization constants, sorted.
    pub constants: Vec<u32>,
    /// It computes with matrix units.
    pub matrix: bool,
    /// These units take sums as factors, or tell the greatest of a row (SPV_NV_cooperative_matrix2).
    pub matrix_sums: bool,
    /// It computes dot products of packed bytes.
    pub dots: bool,
}

const MAGIC: u32 = 0x0723_0203;
const HEADER_WORDS: usize = 5;

const OP_CAPABILITY: u32 = 17;
const OP_TYPE_IMAGE: u32 = 25;
const OP_TYPE_STRUCT: u32 = 30;
const OP_TYPE_POINTER: u32 = 32;
const OP_VARIABLE: u32 = 59;
const OP_DECORATE: u32 = 71;

const CAPABILITY_DOT_PRODUCT: u32 = 6019;
const CAPABILITY_COOPERATIVE_MATRIX: u32 = 6022;
const CAPABILITY_COOPERATIVE_MATRIX_REDUCTIONS: u32 = 5430;
const CAPABILITY_COOPERATIVE_MATRIX_CONVERSIONS: u32 = 5431;

const DECORATION_SPEC_ID: u32 = 1;
const DECORATION_BINDING: u32 = 33;
const DECORATION_DESCRIPTOR_SET: u32 = 34;

const STORAGE_UNIFORM_CONSTANT: u32 = 0;
const STORAGE_STORAGE_BUFFER: u32 = 12;

/// Reads a module; an error says what is malformed or outside what the engine binds.
pub fn reflect(words: &[u32]) -> Result<Reflection, String> {
    if words.len() < HEADER_WORDS || words[0] != MAGIC {
        return Err("not a SPIR-V module of this machine's byte order".into());
    }
    let mut constants = Vec::new();
    let mut binding_of = Vec::new();
    let mut pointee_of = Vec::new();
    let mut type_op = Vec::new();
    let mut variables = Vec::new();
    let (mut matrix, mut matrix_sums, mut dots) = (false, false, false);
    let mut rest = &words[HEADER_WORDS..];
    while let Some(&first) = rest.first() {
        let (length, op) = ((first >> 16) as usize, first & 0xFFFF);
        if length == 0 || length > rest.len() {
            return Err(format!("instruction {op} runs past the end of the module"));
        }
        let (instruction, tail) = rest.split_at(length);
        rest = tail;
        match (op, &instruction[1..]) {
            (OP_CAPABILITY, &[CAPABILITY_COOPERATIVE_MATRIX]) => matrix = true,
            (
                OP_CAPABILITY,
                &[CAPABILITY_COOPERATIVE_MATRIX_REDUCTIONS | CAPABILITY_COOPERATIVE_MATRIX_CONVERSIONS],
            ) => matrix_sums = true,
            (OP_CAPABILITY, &[CAPABILITY_DOT_PRODUCT]) => dots = true,
            (OP_DECORATE, &[_, DECORATION_SPEC_ID, id, ..]) => constants.push(id),
            (OP_DECORATE, &[target, DECORATION_BINDING, binding, ..]) => binding_of.push((target, binding)),
            (OP_DECORATE, &[_, DECORATION_DESCRIPTOR_SET, set, ..]) if set != 0 => {
                return Err(format!("descriptor set {set}: only set 0 is bound"));
            }
            (OP_TYPE_IMAGE | OP_TYPE_STRUCT, &[result, ..]) => type_op.push((result, op)),
            (OP_TYPE_POINTER, &[result, _, pointee, ..]) => pointee_of.push((result, pointee)),
            (OP_VARIABLE, &[pointer, result, storage, ..]) => variables.push((result, pointer, storage)),
            _ => {}
        }
    }

    let find = |pairs: &[(u32, u32)], key: u32| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let mut bindings = Vec::new();
    for (variable, pointer, storage) in variables {
        let Some(binding) = find(&binding_of, variable) else { continue };
        let op = find(&pointee_of, pointer).and_then(|pointee| find(&type_op, pointee));
        let kind = match (storage, op) {
            (STORAGE_STORAGE_BUFFER, Some(OP_TYPE_STRUCT)) => BindingKind::Buffer,
            (STORAGE_UNIFORM_CONSTANT, Some(OP_TYPE_IMAGE)) => BindingKind::Image,
            _ => return Err(format!("binding {binding} is neither a storage buffer nor a storage image")),
        };
        bindings.push((binding, kind));
    }
    bindings.sort_by_key(|(binding, _)| *binding);
    // One buffer under several types, as texels and as halves, is one binding.
    bindings.dedup();
    constants.sort_unstable();
    // The workgroup's size, in younger modules, is that of an entry point and of a variable.
    constants.dedup_by(|a, b| a == b && *a < 3);
    if let Some(pair) = bindings.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("binding {} is declared twice", pair[0].0));
    }
    if let Some(pair) = constants.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("specialization constant {} is declared twice", pair[0]));
    }
    Ok(Reflection { bindings, constants, matrix, matrix_sums, dots })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u32; HEADER_WORDS] = [MAGIC, 0x0001_0300, 0, 100, 0];

    fn module(instructions: &[&[u32]]) -> Vec<u32> {
        let mut words = HEADER.to_vec();
        for instruction in instructions {
            words.push((instruction.len() as u32) << 16 | instruction[0]);
            words.extend(&instruction[1..]);
        }
        words
    }

    #[test]
    fn finds_bindings_and_constants() {
        let words = module(&[
            &[OP_DECORATE, 9, DECORATION_SPEC_ID, 64],
            &[OP_DECORATE, 8, DECORATION_SPEC_ID, 0],
            &[OP_DECORATE, 3, DECORATION_BINDING, 1],
            &[OP_DECORATE, 6, DECORATION_BINDING, 0],
            &[OP_DECORATE, 6, DECORATION_DESCRIPTOR_SET, 0],
            &[OP_TYPE_IMAGE, 1, 50, 1, 0, 0, 0, 2, 30],
            &[OP_TYPE_POINTER, 2, STORAGE_UNIFORM_CONSTANT, 1],
            &[OP_VARIABLE, 2, 3, STORAGE_UNIFORM_CONSTANT],
            &[OP_TYPE_STRUCT, 4, 50],
            &[OP_TYPE_POINTER, 5, STORAGE_STORAGE_BUFFER, 4],
            &[OP_VARIABLE, 5, 6, STORAGE_STORAGE_BUFFER],
        ]);
        let found = reflect(&words).unwrap();
        assert_eq!(found.bindings, [(0, BindingKind::Buffer), (1, BindingKind::Image)]);
        assert_eq!(found.constants, [0, 64]);
        assert!(!found.matrix && !found.dots);
    }

    #[test]
    fn finds_dot_products() {
        let found = reflect(&module(&[&[OP_CAPABILITY, 1], &[OP_CAPABILITY, CAPABILITY_DOT_PRODUCT]])).unwrap();
        assert!(found.dots && !found.matrix);
    }

    #[test]
    fn finds_matrix_units_and_buffers_of_two_types() {
        let buffers = |kind: u32| {
            module(&[
                &[OP_CAPABILITY, 1],
                &[OP_CAPABILITY, CAPABILITY_COOPERATIVE_MATRIX],
                &[OP_DECORATE, 6, DECORATION_BINDING, 2],
                &[OP_DECORATE, 7, DECORATION_BINDING, 2],
                &[OP_TYPE_STRUCT, 1, 50],
                &[OP_TYPE_POINTER, 2, STORAGE_STORAGE_BUFFER, 1],
                &[OP_VARIABLE, 2, 6, STORAGE_STORAGE_BUFFER],
                &[kind, 3, 50],
                &[OP_TYPE_POINTER, 4, if kind == OP_TYPE_STRUCT { 12 } else { 0 }, 3],
                &[OP_VARIABLE, 4, 7, if kind == OP_TYPE_STRUCT { 12 } else { 0 }],
            ])
        };
        let sums = |capability| reflect(&module(&[&[OP_CAPABILITY, capability]])).unwrap().matrix_sums;
        assert_eq!([5430, 5431, CAPABILITY_COOPERATIVE_MATRIX].map(sums), [true, true, false]);
        let found = reflect(&buffers(OP_TYPE_STRUCT)).unwrap();
        assert_eq!((found.bindings, found.matrix), (vec![(2, BindingKind::Buffer)], true));
        let mixed = reflect(&buffers(OP_TYPE_IMAGE)).unwrap_err();
        assert!(mixed.contains("binding 2 is declared twice"), "{mixed}");
    }

    #[test]
    fn malformed_modules_are_errors() {
        assert!(reflect(&[]).is_err());
        assert!(reflect(&[0; 8]).unwrap_err().contains("not a SPIR-V module"));
        let mut cut = module(&[&[OP_DECORATE, 9, DECORATION_SPEC_ID, 64]]);
        cut.pop();
        assert!(reflect(&cut).unwrap_err().contains("past the end"));
        let zero = [&HEADER[..], &[0]].concat();
        assert!(reflect(&zero).unwrap_err().contains("past the end"));
        let set = module(&[&[OP_DECORATE, 9, DECORATION_DESCRIPTOR_SET, 1]]);
        assert!(reflect(&set).unwrap_err().contains("set 1"));
        let twice = module(&[&[OP_DECORATE, 9, DECORATION_SPEC_ID, 7], &[OP_DECORATE, 8, DECORATION_SPEC_ID, 7]]);
        assert!(reflect(&twice).unwrap_err().contains("constant 7 is declared twice"));
    }
}
