//! The page that `fblayout plan --html` writes.

mod common;

use common::{json, plan, refusal, text, well_formed};
use fblayout::plan::Policy;

/// The page of a step, and what is printed beside it.
fn page(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("step.html");
    text(&[arguments, &["--html", path.to_str().expect("UTF-8")]].concat());
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "nothing lies beside the page");
    std::fs::read_to_string(path).expect("the page")
}

/// Figures that a text must say are simulated: those with the unit of a time or of a rate.
fn assert_simulated(page: &str) {
    for section in page.split("<h2>").skip(1) {
        let (title, body) = section.split_once("</h2>").expect("a title");
        let predicts = ["FLOP/s", " ms<", " s<", "GB/s"].iter().any(|unit| body.contains(unit));
        assert!(!predicts || title.contains("simulated"), "{title}");
    }
}

#[test]
fn a_page_is_well_formed_and_needs_nothing_from_elsewhere() {
    let page = page(&["--model", "gemma-3-1b", "--seq", "64", "--device", "adreno-830"]);
    let elements = well_formed(&page);
    for foreign in ["script", "link", "img", "iframe", "object", "embed", "base"] {
        assert!(!elements.iter().any(|name| name == foreign), "{foreign}");
    }
    for address in ["http:", "https:", "//", "@import", "url(http"] {
        assert!(!page.contains(address), "{address}");
    }
    assert!(page.contains("default-src 'none'"), "the page forbids itself to fetch");
    assert_simulated(&page);
    assert!(page.len() < 4 << 20, "{} bytes", page.len());
}

/// Every policy that the engine has is beside the others; layers that are alike are drawn once.
#[test]
fn a_page_has_every_policy_and_folds_layers() {
    let page = page(&["--model", "gemma-2-2b", "--seq", "64", "--device", "mali-g715", "--policy", "convert-always"]);
    well_formed(&page);
    for (name, _) in Policy::ALL {
        assert!(page.contains(&format!("<b>{name}</b>")), "{name}");
    }
    assert!(page.len() < 4 << 20, "{} bytes", page.len());
    let sections = page.matches("<details").count();
    assert!((5..40).contains(&sections), "{sections} sections for 26 layers");
    assert!(page.contains("the policy reads no such view"), "conversions have their reason");
}

/// What vanished is marked, and as many times as the report says.
#[test]
fn every_transform_of_the_report_is_on_the_page() {
    let step = ["--model", "qwen3-1.7b", "--seq", "64", "--device", "amd-wave64"];
    let (page, told) = (page(&step), json(&step));
    let after = |from: &str, to: &str| -> Vec<u64> {
        let parts =
            page.split(from).skip(1).filter_map(|part| part.split_once(to)?.0.rsplit(['>', ' ']).next()?.parse().ok());
        parts.collect()
    };
    let eliminated = told["transforms"]["eliminated"].as_u64().expect("a number");
    assert_eq!(after("<summary>", " vanished").iter().sum::<u64>(), eliminated);
    assert_eq!(
        after("<summary>", " moved").iter().sum::<u64>(),
        told["transforms"]["explicit"].as_array().expect("a list").len() as u64
    );
}

/// Without a profile there is nothing to predict, and the page says so instead of showing empty charts.
#[test]
fn a_page_without_a_profile_predicts_nothing() {
    let page = page(&["--model", "qwen2.5-1.5b", "--seq", "32", "--device", "{}"]);
    well_formed(&page);
    assert!(page.contains("Nothing is predicted") && !page.contains("roofline\""), "no charts of nothing");
    assert_simulated(&page);
}

/// A page that cannot be written is refused by its path, and nothing is left of it.
#[test]
fn pages_that_cannot_be_written_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let step = ["--model", "gemma-3-1b", "--seq", "32", "--device", "lavapipe", "--html"];
    let missing = folder.path().join("missing").join("step.html");
    for path in [missing.as_path(), folder.path()] {
        let told = refusal(&[&step[..], &[path.to_str().expect("UTF-8")]].concat());
        assert!(told.contains(path.to_str().expect("UTF-8")), "{told}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);

    // A page of before stays as it was when a new one is refused.
    let kept = folder.path().join("kept.html");
    std::fs::write(&kept, "before").expect("written");
    let broken =
        ["--model", "gemma-3-1b", "--seq", "0", "--device", "lavapipe", "--html", kept.to_str().expect("UTF-8")];
    assert!(!plan(&broken).status.success());
    assert_eq!(std::fs::read_to_string(&kept).expect("kept"), "before");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}
