//! The numbers of ggml's ops.

macro_rules! ops {
    ($($name:ident)*) => {
        /// ggml's names, by number.
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "ggml's own names")]
        enum Number { $($name),* }

        $(#[allow(dead_code, reason = "the list has all of ggml's ops, whether or not they are computed here")]
        pub(super) const $name: i32 = Number::$name as i32;)*
    };
}

ops! {
    NONE DUP ADD ADD_ID ADD1 ACC SUB MUL DIV SQR SQRT LOG SIN COS SUM SUM_ROWS CUMSUM MEAN ARGMAX COUNT_EQUAL REPEAT
    REPEAT_BACK CONCAT SILU_BACK NORM RMS_NORM RMS_NORM_BACK GROUP_NORM L2_NORM MUL_MAT MUL_MAT_ID OUT_PROD SCALE SET
    CPY CONT RESHAPE VIEW PERMUTE TRANSPOSE GET_ROWS GET_ROWS_BACK SET_ROWS DIAG DIAG_MASK_INF DIAG_MASK_ZERO
    SOFT_MAX SOFT_MAX_BACK ROPE ROPE_BACK CLAMP CONV_TRANSPOSE_1D IM2COL IM2COL_BACK IM2COL_3D COL2IM_1D CONV_2D
    CONV_3D CONV_2D_DW CONV_TRANSPOSE_2D POOL_1D POOL_2D POOL_2D_BACK UPSCALE PAD PAD_REFLECT_1D ROLL ARANGE
    TIMESTEP_EMBEDDING ARGSORT TOP_K LEAKY_RELU TRI FILL FLASH_ATTN_EXT FLASH_ATTN_BACK SSM_CONV SSM_SCAN WIN_PART
    WIN_UNPART GET_REL_POS ADD_REL_POS RWKV_WKV6 GATED_LINEAR_ATTN RWKV_WKV7 SOLVE_TRI GATED_DELTA_NET
    LIGHTNING_INDEXER DSV4_HC_COMB DSV4_HC_PRE DSV4_HC_POST UNARY MAP_CUSTOM1 MAP_CUSTOM2 MAP_CUSTOM3 CUSTOM
    CROSS_ENTROPY_LOSS CROSS_ENTROPY_LOSS_BACK OPT_STEP_ADAMW OPT_STEP_SGD GLU
}

/// Checks that the host numbers the ops as this file does; ops are inserted in the middle of ggml's list now and then.
pub fn check_numbers(name: impl Fn(i32) -> String) -> Result<(), String> {
    for (number, &expected) in (0..).zip(NAMES) {
        let found = name(number);
        if found != expected {
            return Err(format!("the host's op {number} is {found}, not {expected}: its ops are numbered differently"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked_by_name() {
        assert_eq!((NONE, MUL_MAT, GLU), (0, 29, 100));
        let name = |op: i32| NAMES[op as usize].to_owned();
        assert!(check_numbers(name).is_ok());
        let shifted = |op: i32| if op < MUL_MAT { name(op) } else { name(op - 2) };
        assert!(check_numbers(shifted).is_err());
    }
}
