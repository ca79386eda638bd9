//! L4 and L5 of tile maps: inverses and composition, against tables.

use proptest::prelude::*;
use proptest::sample::select;

use crate::layout::{Illegal, TileDigit, TileMap};

/// Bijections of 2 x 2 x 3 x 2 x 5 tiles: the digits in any order.
fn bijection() -> impl Strategy<Value = TileMap> {
    Just(vec![(2u32, 1u32), (2, 2), (3, 4), (2, 12), (5, 24)]).prop_shuffle().prop_map(|digits| {
        let digits: Vec<TileDigit> = digits.into_iter().map(|(radix, stride)| TileDigit { radix, stride }).collect();
        TileMap::new(&digits, 0)
    })
}

/// Any map into 120 tiles: broadcasts, skips, offsets.
fn any_map() -> impl Strategy<Value = TileMap> {
    let digit = (1u32..5, select(&[0u32, 1, 2, 3, 4, 6, 8, 12, 24][..]));
    (prop::collection::vec(digit, 0..4), 0u32..20).prop_filter_map("leaves the tiles", |(digits, offset)| {
        let digits: Vec<TileDigit> = digits.into_iter().map(|(radix, stride)| TileDigit { radix, stride }).collect();
        let last: u32 = offset + digits.iter().map(|digit| (digit.radix - 1) * digit.stride).sum::<u32>();
        (last < 120).then(|| TileMap::new(&digits, offset))
    })
}

fn table(map: &TileMap) -> Vec<u32> {
    (0..map.count()).map(|tile| map.evaluate(tile)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn l4_inverses(map in bijection()) {
        let inverse = map.inverse().unwrap();
        prop_assert_eq!(&inverse.inverse().unwrap(), &map);
        prop_assert_eq!(map.after(&inverse).unwrap(), TileMap::identity(120));
        prop_assert_eq!(inverse.after(&map).unwrap(), TileMap::identity(120));
        for tile in 0..120 {
            prop_assert_eq!(inverse.evaluate(map.evaluate(tile)), tile);
        }
    }

    #[test]
    fn l4_what_is_no_bijection_has_no_inverse(map in any_map()) {
        let mut sources = table(&map);
        sources.sort_unstable();
        let is_bijection = sources.into_iter().eq(0..map.count());
        prop_assert_eq!(map.inverse().is_ok(), is_bijection);
    }

    #[test]
    fn l5_composition_is_evaluation_in_turn(outer in bijection(), inner in any_map()) {
        if let Ok(both) = outer.after(&inner) {
            let expected: Vec<u32> = table(&inner).into_iter().map(|tile| outer.evaluate(tile)).collect();
            prop_assert_eq!(table(&both), expected);
        }
    }

    #[test]
    fn l5_composition_is_associative(a in bijection(), b in bijection(), c in any_map()) {
        let left = a.after(&b).and_then(|ab| ab.after(&c));
        let right = b.after(&c).and_then(|bc| a.after(&bc));
        if let (Ok(left), Ok(right)) = (left, right) {
            prop_assert_eq!(left, right);
        }
    }

    #[test]
    fn l5_identity_is_neutral(map in any_map()) {
        prop_assert_eq!(&TileMap::identity(120).after(&map).unwrap(), &map);
        prop_assert_eq!(&map.after(&TileMap::identity(map.count())).unwrap(), &map);
    }
}

#[test]
fn bad_compositions_are_refused() {
    let digit = |radix, stride| TileDigit { radix, stride };
    // 48 = 4 x 12 transposed, read through a cut at 6.
    let transposed = TileMap::new(&[digit(4, 12), digit(12, 1)], 0);
    let cut = TileMap::new(&[digit(6, 8), digit(8, 1)], 0);
    assert!(transposed.after(&cut).is_ok(), "8 = 4 x 2 refines");
    let cut = TileMap::new(&[digit(8, 6), digit(6, 1)], 0);
    assert!(matches!(transposed.after(&cut), Err(Illegal::NonDivisible { .. })));
    assert!(matches!(TileMap::identity(4).after(&TileMap::identity(5)), Err(Illegal::OutOfBounds { .. })));
    assert_eq!(TileMap::new(&[digit(4, 0)], 0).inverse(), Err(Illegal::NotABijection { tiles: 4 }));
}
