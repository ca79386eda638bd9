//! L2 and L3, the host half: packing puts every element at its address and zeros elsewhere, and unpacking brings it
//! back.

use proptest::prelude::*;

use super::naive::indices;
use super::shapes;
use crate::layout::{Illegal, Layout};

/// Element numbers from 1 on, so that padding (0) differs from every one.
fn numbered(layout: &Layout) -> Vec<u32> {
    (1..=layout.linear_len() as u32).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn l2_l3_packing_follows_the_address(layout in shapes::layout(1500)) {
        let linear = numbered(&layout);
        let packed = layout.pack(&linear).unwrap();
        prop_assert_eq!(&layout.unpack(&packed).unwrap(), &linear);

        let mut expected = vec![0u32; layout.packed_len()];
        for (index, &value) in indices(&layout.extents()).zip(&linear) {
            let at = layout.address(&index);
            let slot = at.y as usize * layout.width() as usize + at.x as usize;
            expected[slot * layout.lanes() as usize + at.lane as usize] = value;
        }
        prop_assert_eq!(packed, expected);
    }

    #[test]
    fn l2_ranges_touch_their_elements_only(layout in shapes::layout(600), cuts: [prop::sample::Index; 2]) {
        let linear = numbered(&layout);
        let mut cuts = cuts.map(|cut| cut.index(linear.len() + 1));
        cuts.sort_unstable();
        let [start, end] = cuts;

        let mut packed = vec![0u32; layout.packed_len()];
        layout.pack_range(start, &linear[start..end], &mut packed).unwrap();
        let seen = layout.unpack(&packed).unwrap();
        prop_assert_eq!(&seen[start..end], &linear[start..end]);
        prop_assert!(seen[..start].iter().chain(&seen[end..]).all(|&value| value == 0));
        prop_assert_eq!(packed.iter().filter(|&&value| value != 0).count(), end - start);

        let mut part = vec![0u32; end - start];
        layout.unpack_range(&layout.pack(&linear).unwrap(), start, &mut part).unwrap();
        prop_assert_eq!(&part[..], &linear[start..end]);
    }
}

/// Blocks of 32 in tiles of four rows: a block is one element of the home counted in slots.
#[test]
fn l2_quantized_blocks_are_packed_by_slot() {
    let layout = Layout::rtile(&[96, 6, 2, 1], 32, 1, 4, 16384, 16384).unwrap();
    let slots = layout.of_slots().unwrap();
    slots.verify(1, layout.width(), layout.height()).unwrap();
    assert_eq!((slots.extents(), slots.packed_len() as u64), (vec![3, 6, 2, 1], layout.slots()));
    for index in indices(&slots.extents()) {
        let first = layout.address(&[index[0] * 32, index[1], index[2], index[3]]);
        assert_eq!((first.lane, slots.address(&index)), (0, first));
    }
    let blocks: Vec<[u8; 20]> = (0..36).map(|block| [block; 20]).collect();
    assert_eq!(slots.unpack(&slots.pack(&blocks).unwrap()).unwrap(), blocks);
    assert_eq!(
        Layout::rtile(&[80, 4], 32, 1, 4, 64, 64).unwrap().of_slots(),
        Err(Illegal::NonDivisible { axis: 0, cut_a: 32, cut_b: 80 })
    );
}

#[test]
fn wrong_lengths_are_refused() {
    let layout = Layout::rtile(&[6, 5], 4, 1, 4, 64, 64).unwrap();
    assert_eq!(layout.pack(&[1.0f32; 29]), Err(Illegal::WrongLength { given: 29, expected: 30 }));
    assert_eq!(layout.unpack(&[1.0f32; 30]), Err(Illegal::WrongLength { given: 30, expected: 64 }));
    assert_eq!(layout.pack_range(29, &[1u8; 2], &mut [0; 64]), Err(Illegal::WrongLength { given: 31, expected: 30 }));
    assert_eq!(
        layout.pack_range(usize::MAX, &[1u8; 2], &mut [0; 64]).unwrap_err().to_string(),
        format!("{} elements given where there are 30", usize::MAX)
    );
    assert_eq!(layout.pack_range(30, &[], &mut [0u8; 64]), Ok(()));
}
