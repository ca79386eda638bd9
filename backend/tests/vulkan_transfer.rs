//! Host transfers move every byte, on every path, at odd sizes and across staging boundaries.

mod vulkan_support;

use fblayout::kernels::StorageKind::{Buffer, Image};
use fblayout::vulkan::{Error, GpuOptions, Storage};
use vulkan_support::{options, pattern, pattern_for, with_gpu};

const EXTENTS: [(u32, u32); 6] = [(1, 1), (3, 5), (17, 1), (1, 33), (64, 64), (129, 31)];

/// Direct access, staging with room for everything, and staging that cuts rows and runs.
fn paths() -> Vec<GpuOptions> {
    let staged = |staging_bytes| GpuOptions { force_staging: true, staging_bytes, ..options() };
    vec![options(), staged(1 << 20), staged(16 * 37), staged(16)]
}

#[test]
fn storages_start_as_zeros() {
    with_gpu(&options(), |gpu| {
        for kind in [Buffer, Image] {
            for (width, height) in EXTENTS {
                let storage = gpu.create(kind, width, height).unwrap();
                assert!(gpu.download(&storage).unwrap().iter().all(|&b| b == 0), "{storage:?}");
            }
        }
    });
}

#[test]
fn uploads_come_back_on_every_path() {
    for options in paths() {
        with_gpu(&options, |gpu| {
            for kind in [Buffer, Image] {
                // One-texel staging submits once per texel: small extents are enough there.
                for (width, height) in EXTENTS.into_iter().filter(|(w, h)| options.staging_bytes > 16 || w * h < 64) {
                    let storage = gpu.create(kind, width, height).unwrap();
                    let data = pattern_for(&storage, 3);
                    gpu.upload(&storage, &data).unwrap();
                    assert_eq!(gpu.download(&storage).unwrap(), data, "{storage:?} staging {}", options.staging_bytes);
                }
            }
        });
    }
}

/// All but a few texels become zero, whatever was there.
#[test]
fn a_few_texels_make_all_of_a_storage() {
    for options in paths() {
        with_gpu(&options, |gpu| {
            for kind in [Buffer, Image] {
                for (width, height) in [(1, 1), (17, 1), (64, 64), (129, 31)] {
                    let storage = gpu.create(kind, width, height).unwrap();
                    let data = pattern_for(&storage, 3);
                    if options.staging_bytes > 16 {
                        gpu.upload(&storage, &data).unwrap();
                    }
                    // The first and the last, neighbours, and some in between.
                    let count = u64::from(width * height);
                    let some = (0..count).filter(|at| at % 97 < 2 || at + 1 == count);
                    let texels: Vec<(u64, [u8; 16])> =
                        some.map(|at| (at, data[16 * at as usize..][..16].try_into().unwrap())).collect();
                    gpu.upload_sparse(&storage, &texels).unwrap();
                    let mut expected = vec![0; data.len()];
                    for (at, texel) in &texels {
                        expected[16 * *at as usize..][..16].copy_from_slice(texel);
                    }
                    assert_eq!(gpu.download(&storage).unwrap(), expected, "{storage:?} {}", options.staging_bytes);
                    gpu.upload_sparse(&storage, &[]).unwrap();
                    assert!(gpu.download(&storage).unwrap().iter().all(|&byte| byte == 0), "{storage:?}");
                    let beyond = gpu.upload_sparse(&storage, &[(count, [1; 16])]);
                    assert!(matches!(beyond, Err(Error::Invalid { .. })), "{storage:?}");
                }
            }
        });
    }
}

#[test]
fn rows_change_and_read_alone() {
    for options in paths() {
        with_gpu(&options, |gpu| {
            for kind in [Buffer, Image] {
                let storage = gpu.create(kind, 7, 6).unwrap();
                let mut expected = pattern_for(&storage, 1);
                gpu.upload(&storage, &expected).unwrap();
                let row = 7 * 16;
                let middle = pattern(3 * row, 9);
                gpu.upload_rows(&storage, 2, &middle).unwrap();
                expected[2 * row as usize..5 * row as usize].copy_from_slice(&middle);
                assert_eq!(gpu.download(&storage).unwrap(), expected);
                let mut last = vec![0; row as usize];
                gpu.download_rows(&storage, 5, &mut last).unwrap();
                assert_eq!(last, expected[5 * row as usize..]);
                gpu.upload_rows(&storage, 6, &[]).unwrap();
            }
        });
    }
}

#[test]
fn many_storages_share_staging() {
    for options in paths() {
        with_gpu(&options, |gpu| {
            let storages: Vec<Storage> =
                [(Buffer, 5, 3), (Image, 9, 2), (Buffer, 1, 1), (Image, 40, 3), (Buffer, 39, 1)]
                    .map(|(kind, w, h)| gpu.create(kind, w, h).unwrap())
                    .into();
            let data: Vec<_> = storages.iter().zip(0..).map(|(s, i)| pattern_for(s, i)).collect();
            let items: Vec<_> = storages.iter().zip(&data).map(|(s, d)| (s, d.as_slice())).collect();
            gpu.upload_many(&items).unwrap();
            for (storage, data) in items {
                assert_eq!(gpu.download(storage).unwrap(), data, "{storage:?}");
            }
        });
    }
}

#[test]
fn fills_and_copies_cross_kinds() {
    with_gpu(&options(), |gpu| {
        for from_kind in [Buffer, Image] {
            for to_kind in [Buffer, Image] {
                let from = gpu.create(from_kind, 13, 6).unwrap();
                let to = gpu.create(to_kind, 13, 6).unwrap();
                let data = pattern_for(&from, 5);
                gpu.upload(&from, &data).unwrap();
                gpu.copy(&from, &to).unwrap();
                assert_eq!(gpu.download(&to).unwrap(), data, "{from_kind:?} to {to_kind:?}");
                gpu.fill(&to, 0xdead_beef).unwrap();
                assert!(gpu.download(&to).unwrap().chunks(4).all(|w| w == 0xdead_beef_u32.to_le_bytes()));
                assert_eq!(gpu.download(&from).unwrap(), data);
            }
        }
    });
}

#[test]
fn wrong_sizes_are_errors() {
    with_gpu(&options(), |gpu| {
        let storage = gpu.create_buffer(4, 4).unwrap();
        let other = gpu.create_buffer(4, 5).unwrap();
        let invalid = |result: Result<(), Error>| matches!(result, Err(Error::Invalid { .. }));
        assert!(invalid(gpu.upload(&storage, &[0; 64])), "a part");
        assert!(invalid(gpu.upload(&storage, &[0; 512])), "too much");
        assert!(invalid(gpu.upload_rows(&storage, 0, &[0; 16])), "part of a row");
        assert!(invalid(gpu.upload_rows(&storage, 4, &[0; 64])), "below the last row");
        assert!(invalid(gpu.download_rows(&storage, u32::MAX, &mut [0; 64])), "far below");
        assert!(invalid(gpu.copy(&storage, &other)), "other extent");
        assert!(invalid(gpu.copy(&storage, &storage)), "onto itself");
        assert!(invalid(gpu.create_buffer(0, 4).map(drop)), "no texels");
    });
    with_gpu(&options(), |gpu| {
        with_gpu(&options(), |stranger| {
            let storage = stranger.create_buffer(1, 1).unwrap();
            assert!(matches!(gpu.upload(&storage, &[0; 16]), Err(Error::Invalid { .. })));
        });
    });
}
