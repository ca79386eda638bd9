//! The sets of products that are compared.

use fblayout::graph::DType;
use fblayout::plan::{Policy, StorageChoice};

use super::case::{Case, Direction, NN, Size, TN, TT};
use crate::reference;

/// The sets, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// A layer up, a layer down and a square, in the four directions.
    Gemm,
    /// The input's gradient by quantized weights against the forward of the same matrix.
    Gradient,
    /// One to eight columns: the speed at which weights are read.
    Gemv,
    /// What a LoRA pair of Llama-1B computes, forward and back.
    Lora,
    /// A layer, its input's gradient and its weights' under every layout policy.
    Policies,
}

impl Set {
    /// All of them, by the names they parse from.
    pub const ALL: [(&'static str, Self); 5] = [
        ("gemm", Self::Gemm),
        ("gradient", Self::Gradient),
        ("gemv", Self::Gemv),
        ("lora", Self::Lora),
        ("policies", Self::Policies),
    ];

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, set)| *set == self).map_or("", |(name, _)| name)
    }
}

impl std::str::FromStr for Set {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == s);
        let names = Self::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, set)| set).ok_or_else(|| format!("set {s:?} is not one of {names}"))
    }
}

/// What every case of a list is crossed with.
pub struct Variants<'a> {
    pub storages: &'a [(&'static str, StorageChoice)],
    /// Types of weights; those of the set if empty.
    pub dtypes: &'a [DType],
    /// Type of right factors.
    pub right: DType,
    /// Only these of the four directions where a set has them; all if empty.
    pub directions: &'a [Direction],
    /// Only these of the policies that a set has; all if empty.
    pub policies: &'a [Policy],
}

/// Columns of the large products: tokens of a sequence.
const TOKENS: u32 = 512;

/// The widths of Llama-1B.
const WIDTH: u32 = 2048;
const INNER: u32 = 8192;

impl Variants<'_> {
    /// The cases of a set.
    pub fn of(&self, set: Set) -> Vec<Case> {
        let sizes = |of: &[[u32; 3]]| -> Vec<Size> { of.iter().map(|&[n, m, k]| Size { n, m, k }).collect() };
        match set {
            Set::Gemm => {
                let sizes = sizes(&[[TOKENS, INNER, WIDTH], [TOKENS, WIDTH, INNER], [4096, 4096, 4096]]);
                let dtypes = [DType::F16, DType::Q8_0, DType::Q4_K, DType::F32];
                self.in_directions(set.name(), &sizes, &dtypes)
            }
            Set::Gradient => {
                let layers = [("up", WIDTH, INNER), ("down", INNER, WIDTH)];
                let groups = layers.map(|(name, from, to)| {
                    vec![
                        (format!("{name} forward"), NN, Size { n: TOKENS, m: to, k: from }),
                        (format!("{name} input gradient"), TN, Size { n: TOKENS, m: from, k: to }),
                    ]
                });
                self.crossed(set.name(), &groups, &[DType::Q8_0, DType::Q4_K])
            }
            Set::Gemv => {
                let groups: Vec<_> = sizes(&[1, 2, 4, 8].map(|n| [n, 4096, 14_336]))
                    .into_iter()
                    .map(|size| vec![("forward".to_owned(), NN, size)])
                    .collect();
                self.crossed(set.name(), &groups, &[DType::F16, DType::Q8_0, DType::Q4_0, DType::Q4_K])
            }
            Set::Lora => self.lora(set.name()),
            Set::Policies => {
                let layer = vec![
                    ("forward".to_owned(), NN, Size { n: TOKENS, m: INNER, k: WIDTH }),
                    ("input gradient".to_owned(), TN, Size { n: TOKENS, m: WIDTH, k: INNER }),
                    ("weight gradient".to_owned(), TT, Size { n: INNER, m: WIDTH, k: TOKENS }),
                ];
                let of_policy = |policy: Policy| {
                    let cases = self.crossed(set.name(), std::slice::from_ref(&layer), &[DType::F16]);
                    // What weights' gradients are products of is not the weights.
                    let plain = |case: &Case| if case.direction == TT { DType::F32 } else { case.dtype };
                    cases.into_iter().map(move |case| Case { policy, dtype: plain(&case), ..case })
                };
                let wanted = |policy: &Policy| self.policies.is_empty() || self.policies.contains(policy);
                reference::policies().filter(wanted).flat_map(of_policy).collect()
            }
        }
    }

    /// Every direction of these sizes.
    pub fn in_directions(&self, set: &'static str, sizes: &[Size], dtypes: &[DType]) -> Vec<Case> {
        let wanted =
            |(_, direction): &(&str, Direction)| self.directions.is_empty() || self.directions.contains(direction);
        let four = |&size| {
            let all = Direction::ALL.into_iter().filter(wanted);
            all.map(|(_, direction)| ("product".to_owned(), direction, size)).collect()
        };
        let groups: Vec<Group> = sizes.iter().map(four).collect();
        self.crossed(set, &groups, dtypes)
    }

    fn lora(&self, set: &'static str) -> Vec<Case> {
        let mut groups: Vec<Group> = Vec::new();
        for tokens in [128, TOKENS] {
            for r in [8, 64] {
                for d in [WIDTH, INNER] {
                    let product = |what: &str, direction, n, m, k| {
                        (format!("{what}, rank {r}, {tokens} tokens"), direction, Size { n, m, k })
                    };
                    groups.push(vec![
                        product("x A", NN, tokens, r, d),
                        product("gradient of x", TN, tokens, d, r),
                        product("gradient of A", TT, r, d, tokens),
                    ]);
                    groups.push(vec![
                        product("t B", NN, tokens, d, r),
                        product("gradient of t", TN, tokens, r, d),
                        product("gradient of B", TT, d, r, tokens),
                    ]);
                }
            }
        }
        self.crossed(set, &groups, &[DType::F32])
    }

    /// Cases of one storage and type lie together: they share weights.
    fn crossed(&self, set: &'static str, groups: &[Group], dtypes: &[DType]) -> Vec<Case> {
        let dtypes = if self.dtypes.is_empty() { dtypes } else { self.dtypes };
        let mut cases = Vec::new();
        for &(storage, choice) in self.storages {
            let typed = dtypes.iter().flat_map(|&dtype| groups.iter().map(move |products| (dtype, products)));
            for (group, (dtype, products)) in typed.enumerate() {
                cases.extend(products.iter().map(|(what, direction, size)| Case {
                    set,
                    what: what.clone(),
                    group,
                    direction: *direction,
                    size: *size,
                    dtype,
                    right: self.right,
                    storage,
                    choice,
                    policy: reference::POLICY,
                }));
            }
        }
        cases
    }
}

/// Products that the first of them is the measure of.
type Group = Vec<(String, Direction, Size)>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::STORAGES;

    const ALL: Variants<'_> =
        Variants { storages: &STORAGES, dtypes: &[], right: DType::F32, directions: &[], policies: &[] };

    #[test]
    fn every_case_of_every_set_is_a_graph() {
        let counts = Set::ALL.map(|(name, set)| {
            assert_eq!(name.parse(), Ok(set));
            let cases = ALL.of(set);
            for case in &cases {
                case.graph(2).unwrap_or_else(|e| panic!("{name} {case:?}: {e}"));
            }
            cases.len()
        });
        assert_eq!(counts, [2 * 4 * 12, 2 * 2 * 4, 2 * 4 * 4, 2 * 16 * 3, 2 * 7 * 3]);
        assert!("gem".parse::<Set>().unwrap_err().contains("gemv"));
    }

    /// A gradient takes as many operations as its forward, and reads the same matrix.
    #[test]
    fn gradients_are_of_the_forward_beside_them() {
        for set in [Set::Gradient, Set::Lora, Set::Policies] {
            let cases = ALL.of(set);
            for case in &cases {
                let same = |other: &&Case| {
                    let key = |c: &Case| (c.group, c.storage, c.policy);
                    key(other) == key(case)
                };
                let forward = cases.iter().find(same).unwrap();
                assert_eq!((forward.direction, forward.size.flops()), (NN, case.size.flops()));
                if case.direction == TN {
                    assert_eq!(case.factors()[0], forward.factors()[0], "{case:?}");
                }
            }
        }
    }

    #[test]
    fn cases_are_chosen() {
        let policies = &[Policy::RTile];
        let chosen =
            Variants { storages: &STORAGES[..1], dtypes: &[DType::BF16], directions: &[NN, TT], policies, ..ALL };
        assert_eq!((chosen.of(Set::Gemm).len(), chosen.of(Set::Policies).len()), (3 * 2, 3));
        let sizes = [Size { n: 1, m: 2, k: 3 }];
        assert_eq!(chosen.in_directions("shapes", &sizes, &[DType::F16]).len(), 2);
    }
}
