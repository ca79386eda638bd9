//! What `fbl_program_run` adds to the engine's own run of a replayed step: printed, for `--nocapture`; how long things take is no
//! matter of pass or fail.

use std::time::Instant;

use fblayout::engine::{Engine, EngineOptions};
use fblayout::graph::{DType, Op};
use fblayout::recipe::{Recipe, Role, fixed};
use fblayout::session::Session;
use fblayout_c::engine::{fbl_engine_create, fbl_engine_destroy};
use fblayout_c::graph::{fbl_graph_create, fbl_graph_destroy, fbl_input};
use fblayout_c::handle::fbl_tensor;
use fblayout_c::ops::fbl_scale;
use fblayout_c::program::{fbl_compile, fbl_program_destroy, fbl_program_run};
use fblayout_c::status::FBL_OK;

const RUNS: usize = 3000;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
fn a_run_through_the_border() {
    let engine = Engine::open(0, &EngineOptions::from_env().unwrap()).unwrap();
    let mut recipe = Recipe::new();
    let x = recipe.external("x", DType::F32, fixed([4, 1, 1, 1]), Role::Input).unwrap();
    let y = recipe.node(Op::Scale { scale: 2.0, bias: 0.0 }, &[x], None).unwrap();
    recipe.keep(y).unwrap();
    let mut session = Session::new(&engine, recipe, &[]).unwrap();

    let (mut c_engine, mut graph, mut program) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let (mut x, mut y): (fbl_tensor, fbl_tensor) = (0, 0);
    // SAFETY: all pointers name live variables, texts and handles, as each call asks.
    unsafe {
        assert_eq!(fbl_engine_create(std::ptr::null(), &raw mut c_engine), FBL_OK);
        assert_eq!(fbl_graph_create(c_engine, &raw mut graph), FBL_OK);
        assert_eq!(fbl_input(graph, c"x".as_ptr(), 0, [4, 1, 1, 1].as_ptr(), &raw mut x), FBL_OK);
        assert_eq!(fbl_scale(graph, x, 2.0, &raw mut y), FBL_OK);
        assert_eq!(fbl_compile(graph, std::ptr::null(), &raw mut program), FBL_OK);
    }
    let (mut own, mut through) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        session.run().unwrap();
        own.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        // SAFETY: the program is alive, and no other thread knows it.
        let status = unsafe { fbl_program_run(program) };
        through.push(start.elapsed().as_secs_f64() * 1e6);
        assert_eq!(status, FBL_OK);
    }
    // SAFETY: made above, destroyed once.
    unsafe {
        fbl_program_destroy(program);
        fbl_graph_destroy(graph);
        fbl_engine_destroy(c_engine);
    }
    let (own, through) = (median(own), median(through));
    println!(
        "a replayed step: {own:.2} us by the engine, {through:.2} us by fbl_program_run, {:+.2} us",
        through - own
    );

    // The border alone: a call that is refused before anything is done.
    let start = Instant::now();
    for _ in 0..RUNS {
        // SAFETY: NULL is refused.
        unsafe { fbl_program_run(std::ptr::null_mut()) };
    }
    println!("a refused call: {:.3} us", start.elapsed().as_secs_f64() * 1e6 / RUNS as f64);
}
