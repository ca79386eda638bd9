//! What a machine does for a division by a constant, and how much that is.
//!
//! * S13: a power of two is a shift, or the low bits.
//! * S10: `x ÷ a = x M >> s` for x < 2^N, where `L = ⌈log2 a⌉`, `s = N + L` and `M = ⌈2^s / a⌉`: with `M = (2^s + δ) / a` and
//!   δ < a, the product is beyond `x / a` by `x δ / (a 2^s) < 2^-L ≤ 1 / a`, less than from x / a to the next whole number.
//! * S12: `x mod a = x - a (x ÷ a)`, with the quotient shared where it is wanted too.
//!
//! S11, division in f32 for x < 2^22, is left to drivers: they do not see ranges, and no shader of ours says so.

use std::collections::HashSet;

use super::{Expr, Kind};

/// Operations of a machine on 32-bit words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Ops {
    /// Additions, subtractions, shifts and masks.
    pub simple: u32,
    /// Products, low half.
    pub mul: u32,
    /// Products, high half.
    pub mul_high: u32,
}

impl Ops {
    /// What computes all of these, with equal parts computed once.
    pub fn of(exprs: &[Expr]) -> Self {
        let mut seen = HashSet::new();
        let mut ops = Self::default();
        exprs.iter().for_each(|expr| ops.count(&expr.machine(), &mut seen));
        ops
    }

    fn count(&mut self, expr: &Expr, seen: &mut HashSet<Expr>) {
        if !seen.insert(expr.clone()) {
            return;
        }
        match expr.0.kind {
            Kind::Constant(_) | Kind::Index(_) => {}
            Kind::Add(..) | Kind::Sub(..) | Kind::ShiftLeft(..) | Kind::ShiftRight(..) | Kind::Low(..) => {
                self.simple += 1;
            }
            Kind::Mul(..) => self.mul += 1,
            // The high half, and the rest of the shift.
            Kind::MulHigh { .. } | Kind::Div(..) | Kind::Mod(..) => {
                self.mul_high += 1;
                self.simple += 1;
            }
        }
        expr.operands().into_iter().for_each(|operand| self.count(operand, seen));
    }
}

impl Expr {
    /// The same value without divisions by constants.
    #[must_use]
    pub fn machine(&self) -> Self {
        match &self.0.kind {
            Kind::Constant(_) | Kind::Index(_) => self.clone(),
            Kind::Add(a, b) => a.machine().add(&b.machine()),
            Kind::Sub(a, b) => a.machine().minus(&b.machine(), self.most()),
            Kind::Mul(x, by) => x.machine().product(*by),
            Kind::Div(x, by) => x.machine().quotient(*by),
            Kind::Mod(x, by) => x.machine().remainder(*by),
            Kind::ShiftLeft(x, by) => x.machine().shifted_left(*by),
            Kind::ShiftRight(x, by) => x.machine().shifted_right(*by),
            Kind::Low(x, count) => x.machine().low(*count),
            &Kind::MulHigh { ref x, multiplier, shift } => {
                Self::new(Kind::MulHigh { x: x.machine(), multiplier, shift }, self.most())
            }
        }
    }

    fn product(&self, by: u64) -> Self {
        match by.is_power_of_two() {
            true => self.shifted_left(by.ilog2()),
            false => self.mul(by),
        }
    }

    fn quotient(&self, by: u64) -> Self {
        if by.is_power_of_two() {
            return self.shifted_right(by.ilog2());
        }
        if self.most() > u64::from(u32::MAX) {
            return self.div(by);
        }
        let (bits, log) = (self.most().checked_ilog2().map_or(0, |log| log + 1), by.ilog2() + 1);
        let shift = bits + log;
        let multiplier = (1u128 << shift).div_ceil(by.into()) as u64;
        Self::new(Kind::MulHigh { x: self.clone(), multiplier, shift }, self.most() / by)
    }

    fn remainder(&self, by: u64) -> Self {
        if by.is_power_of_two() {
            return self.low(by.ilog2());
        }
        let whole = self.quotient(by).product(by);
        self.minus(&whole, self.most().min(by - 1))
    }

    fn minus(&self, other: &Self, most: u64) -> Self {
        Self::new(Kind::Sub(self.clone(), other.clone()), most)
    }

    fn shifted_left(&self, by: u32) -> Self {
        match by {
            0 => self.clone(),
            _ => Self::new(Kind::ShiftLeft(self.clone(), by), self.most().saturating_mul(1 << by)),
        }
    }

    fn shifted_right(&self, by: u32) -> Self {
        match by {
            0 => self.clone(),
            _ => Self::new(Kind::ShiftRight(self.clone(), by), self.most() >> by),
        }
    }

    fn low(&self, count: u32) -> Self {
        Self::new(Kind::Low(self.clone(), count), self.most().min((1 << count) - 1))
    }
}
