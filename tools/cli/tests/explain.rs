//! `fblayout plan --explain`.

mod common;

use common::{json, refusal, text};
use serde_json::Value;

const STEP: [&str; 6] = ["--model", "gemma-3-1b", "--seq", "64", "--device", "adreno-830"];

fn explained(node: &str) -> Value {
    json(&[&STEP[..], &["--explain", node]].concat())["explained"].clone()
}

#[test]
fn a_node_is_explained_from_its_window_to_its_time() {
    let told = explained("blk.3.scores");
    assert_eq!(told["node"], "MUL_MAT blk.3.scores");
    let reads = told["reads"].as_array().expect("a list");
    assert_eq!(reads.len(), 2);
    assert!(reads.iter().all(|read| read["window"].as_str().expect("a window").contains("strides")), "{told}");
    let vanished = told["transforms"].as_array().expect("a list");
    assert!(vanished.iter().any(|t| t["kind"] == "permute" && t["verdict"] == "eliminated"), "{told}");
    let dispatch = &told["dispatches"][0];
    assert!(dispatch["schedule"].as_str().expect("words").contains("workgroups of"), "{told}");
    let tensors = dispatch["tensors"].as_array().expect("a list");
    let writes: Vec<_> = tensors.iter().filter(|t| t["access"] == "writes").collect();
    assert_eq!(writes.len(), 1);
    for tensor in tensors {
        for part in ["layout", "coordinates"] {
            let formula = tensor[part].as_str().expect("a formula");
            assert!(["lane = ", "x = ", "y = "].iter().all(|place| formula.contains(place)), "{part}: {formula}");
        }
        assert!(tensor["memory"].as_str().expect("a place").contains("arena"), "{tensor}");
        assert!(tensor["live"].as_array().expect("two ends").len() == 2 && tensor["bytes"].as_u64() > Some(0));
        let scratch = tensor["role"] == "scratch";
        assert_eq!(tensor["candidates"].as_array().expect("a list").is_empty(), scratch, "{tensor}");
    }
    let cost = &dispatch["cost"];
    let times = cost["times"].as_array().expect("four resources");
    let longest = times.iter().filter_map(Value::as_f64).fold(0.0, f64::max);
    assert!(times.len() == 4 && cost["seconds"].as_f64().expect("a time") >= longest, "{cost}");
}

/// No tile that a tensor could have instead is better than what the selector gave it, where that is the optimum.
#[test]
fn a_chosen_tile_is_told_with_the_others() {
    let step = [&STEP[..], &["--selector", "pbqp", "--explain", "blk.3.ffn_gated"]].concat();
    let told = json(&step);
    let choices = told["explained"]["choices"].as_array().expect("a list");
    assert!(!choices.is_empty());
    for choice in choices {
        let cost = |tile: &Value| tile[1].as_f64().expect("seconds");
        let tiles = choice["tiles"].as_array().expect("a list");
        let chosen = cost(&tiles[choice["chosen"].as_u64().expect("a number") as usize]);
        let selected = told["selection"]["cost"].as_f64().expect("seconds");
        assert!((chosen - selected).abs() < 1e-9 * selected, "{chosen} and {selected}");
        assert!(tiles.len() > 1 && choice["stand"] == "simulated");
        let gap = told["selection"]["gap"].as_f64().expect("seconds");
        assert!(tiles.iter().all(|tile| cost(tile) >= chosen - gap - 1e-12), "{choice}");
    }
}

/// The text has the same, and says which figures are simulated.
#[test]
fn the_text_is_for_people() {
    let told = text(&[&STEP[..], &["--explain", "blk.3.scores"]].concat());
    let (_, told) = told.split_once("node #").expect("an explanation");
    for part in [
        "asks for",
        "vanished",
        "shader gemm",
        "lives from",
        "layout  lane = ",
        "found at lane = ",
        "chosen",
        "bound by",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let predicted = |line: &&str| line.contains(" ms") || line.contains("FLOP");
    assert!(told.lines().filter(predicted).all(|line| line.trim_start().starts_with("simulated: ")), "{told}");
}

#[test]
fn a_copy_that_was_not_made_says_so() {
    let told = text(&[&STEP[..], &["--explain", "CPY blk.2.joined"]].concat());
    assert!(told.contains("Copy of") && told.contains("dispatches nothing"), "{told}");
    let made = text(&[&STEP[..], &["--policy", "rtile", "--explain", "CPY blk.2.joined"]].concat());
    assert!(made.contains("moves bytes, for the policy makes every copy") && made.contains("conversion "), "{made}");
}

/// A node that another one's dispatch computes is explained by that dispatch.
#[test]
fn a_fused_node_is_explained_where_it_is_done() {
    let node = "RMS_NORM blk.3.ffn_norm.rows";
    let fused = [&STEP[..], &["--policy", "full", "--explain", node]].concat();
    let told = json(&fused)["explained"].clone();
    let alone = json(&[&STEP[..], &["--policy", "rtile+maps", "--explain", node]].concat());
    assert!(alone["explained"]["done_with"].is_null());
    let host = told["done_with"].as_str().expect("a label");
    assert!(host.starts_with("RMS_NORM+MUL blk.3.ffn_norm"), "{host}");
    assert_eq!(told["dispatches"][0]["label"], host);
    assert!(text(&fused).contains("is done within RMS_NORM+MUL"));
}

/// Results follow each other in one storage; each dispatch names the one that it finds and the one that it leaves.
#[test]
fn results_in_place_have_their_own_names() {
    let node = ["--policy", "rtile+maps", "--explain", "blk.3.attn_residual"];
    let told = json(&[&STEP[..], &node].concat())["explained"].clone();
    let tensors = told["dispatches"][0]["tensors"].as_array().expect("a list");
    let names = |access: &str| -> Vec<&str> {
        tensors.iter().filter(|t| t["access"] == access).map(|t| t["name"].as_str().expect("a name")).collect()
    };
    assert_eq!(names("writes"), ["blk.3.attn_residual"], "{told}");
    assert_eq!(names("reads"), ["blk.2.ffn_residual", "blk.3.post_attention_norm"], "{told}");
}

#[test]
fn names_that_fit_several_or_no_nodes_are_told() {
    let with = |node: &str| refusal(&[&STEP[..], &["--explain", node]].concat());
    let several = with("ffn_gate");
    assert!(
        several.contains("nodes fit \"ffn_gate\"") && several.contains("#") && several.contains("more"),
        "{several}"
    );
    assert!(with("blk.3.scroes").contains("the nearest are blk.3.scores"), "a slip of the finger");
    assert!(with("#99999").contains("they go from #0"));
    let number = explained("blk.3.scores")["number"].as_u64().expect("a number");
    assert_eq!(explained(&format!("#{number}"))["node"], "MUL_MAT blk.3.scores");
}
