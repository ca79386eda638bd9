//! Strength reduction by rules that hold for all numbers that are not negative; ÷ is the whole quotient.
//!
//! | rule | where |
//! |---|---|
//! | S1 `(x ÷ a) mod b = (x mod ab) ÷ a` | read from right to left, as S5: the normal form is `(x ÷ a) mod b` |
//! | S2 `(x ÷ a) ÷ b = x ÷ ab` | [`Digit::split`] |
//! | S3 `(x mod a) mod b = x mod b` where b divides a | [`Digit::split`] |
//! | S4 `(x mod a) mod b = x mod a` where a ≤ b | by S9 |
//! | S5 `(x mod a) ÷ b = (x ÷ b) mod (a / b)` where b divides a | [`Digit::split`] |
//! | S6 `(c x + y) ÷ c = x + y ÷ c`, `(c x + y) mod c = y mod c` | [`Sum::split`] |
//! | S7 `(g x + y) ÷ (g e) = x ÷ e` where y < g | [`Sum::split`] |
//! | S8 `(g x + y) mod (g e) = g (x mod e) + y` where y < g | [`Sum::split`] |
//! | S9 `x ÷ a = 0`, `x mod a = x` where x < a | [`Digit::new`], [`Sum::split`] |
//! | S12 `x mod a = x - a (x ÷ a)` | read from right to left, digits that follow each other become one: [`Sum::join`] |
//!
//! The normal form is a constant and a sum of multiples of digits. What no rule takes apart is the base of a digit as it stands.

use super::{Expr, Kind};

/// A sum of multiples of digits.
#[derive(Clone, Debug, Default)]
struct Sum {
    constant: u64,
    terms: Vec<(u64, Digit)>,
}

/// `(base ÷ divisor) mod modulus`, without the remainder where there is no modulus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Digit {
    base: Expr,
    divisor: u64,
    modulus: Option<u64>,
}

impl Expr {
    /// The same value with fewer and cheaper operations.
    #[must_use]
    pub fn reduced(&self) -> Self {
        Sum::of(self).expr()
    }
}

impl Digit {
    /// Without a remainder that changes nothing (S9).
    fn new(base: Expr, divisor: u64, modulus: Option<u64>) -> Self {
        let quotient = base.most() / divisor;
        Self { base, divisor, modulus: modulus.filter(|&modulus| modulus <= quotient) }
    }

    fn most(&self) -> u64 {
        let quotient = self.base.most() / self.divisor;
        self.modulus.map_or(quotient, |modulus| quotient.min(modulus - 1))
    }

    /// Quotient and remainder by `c`, where the digit can be cut there.
    fn split(&self, c: u64) -> Option<(Self, Self)> {
        let Self { base, divisor, modulus } = self;
        if modulus.is_some_and(|modulus| !modulus.is_multiple_of(c)) {
            return None;
        }
        let quotient = Self::new(base.clone(), divisor.checked_mul(c)?, modulus.map(|modulus| modulus / c));
        Some((quotient, Self::new(base.clone(), *divisor, Some(c))))
    }

    fn expr(&self) -> Expr {
        let quotient = if self.divisor == 1 { self.base.clone() } else { self.base.div(self.divisor) };
        self.modulus.map_or(quotient.clone(), |modulus| quotient.modulo(modulus))
    }
}

impl Sum {
    fn of(expr: &Expr) -> Self {
        match &expr.0.kind {
            &Kind::Constant(constant) => Self { constant, terms: Vec::new() },
            Kind::Index(_) => Self::from(Digit::new(expr.clone(), 1, None)),
            Kind::Add(a, b) => Self::of(a).plus(Self::of(b)),
            Kind::Mul(x, by) => Self::of(x).times(*by),
            Kind::Div(x, by) => Self::of(x).split(*by).0,
            Kind::Mod(x, by) => Self::of(x).split(*by).1,
            // What a machine does is reduced already.
            _ => Self::from(Digit::new(expr.clone(), 1, None)),
        }
    }

    fn most(&self) -> u64 {
        let most = |(by, digit): &(u64, Digit)| digit.most().saturating_mul(*by);
        self.terms.iter().map(most).fold(self.constant, u64::saturating_add)
    }

    fn plus(mut self, other: Self) -> Self {
        self.constant = self.constant.saturating_add(other.constant);
        self.terms.extend(other.terms);
        self.join()
    }

    fn times(mut self, by: u64) -> Self {
        self.constant = self.constant.saturating_mul(by);
        self.terms.iter_mut().for_each(|(times, _)| *times = times.saturating_mul(by));
        self.join()
    }

    /// One term for each digit, and one digit for digits that follow each other.
    fn join(mut self) -> Self {
        self.terms.retain(|(by, digit)| *by > 0 && digit.most() > 0);
        self.terms.sort_by(|(_, a), (_, b)| a.cmp(b));
        let mut joined: Vec<(u64, Digit)> = Vec::with_capacity(self.terms.len());
        for (by, digit) in self.terms {
            match joined.last_mut() {
                Some((times, last)) if *last == digit => *times = times.saturating_add(by),
                Some((times, last)) if last.is_followed_by(&digit) && last.modulus.map(|m| *times * m) == Some(by) => {
                    let modulus = last.modulus.zip(digit.modulus).map(|(inner, outer)| inner * outer);
                    *last = Digit::new(digit.base, last.divisor, modulus);
                }
                _ => joined.push((by, digit)),
            }
        }
        self.terms = joined;
        self
    }

    /// Whole quotient and remainder by `c`.
    fn split(self, c: u64) -> (Self, Self) {
        // S6
        let (x, z) = self.apart(c);
        if z.most() < c {
            return (x, z);
        }
        // S7, S8: by the coarsest grain under which the rest is less than a grain.
        let mut grains: Vec<u64> = z.terms.iter().map(|&(by, _)| gcd(by, c)).filter(|&grain| grain > 1).collect();
        grains.sort_unstable_by(|a, b| b.cmp(a));
        for grain in grains {
            let (w, y) = z.clone().apart(grain);
            if y.most() < grain {
                let (quotient, remainder) = w.split(c / grain);
                return (x.plus(quotient), remainder.times(grain).plus(y));
            }
        }
        if let (0, [(1, digit)]) = (z.constant, &z.terms[..])
            && let Some((quotient, remainder)) = digit.split(c)
        {
            return (x.plus(Self::from(quotient)), Self::from(remainder));
        }
        let base = z.expr();
        let quotient = Digit::new(base.clone(), c, None);
        (x.plus(Self::from(quotient)), Self::from(Digit::new(base, 1, Some(c))))
    }

    /// `x` and `y` with `self = c x + y`, where x has the terms that are multiples of c.
    fn apart(self, c: u64) -> (Self, Self) {
        let mut x = Self { constant: self.constant / c, terms: Vec::new() };
        let mut y = Self { constant: self.constant % c, terms: Vec::new() };
        for (by, digit) in self.terms {
            match by.is_multiple_of(c) {
                true => x.terms.push((by / c, digit)),
                false => y.terms.push((by, digit)),
            }
        }
        (x, y)
    }

    /// Largest steps first.
    fn expr(&self) -> Expr {
        let mut terms: Vec<&(u64, Digit)> = self.terms.iter().collect();
        terms.sort_by(|a, b| b.cmp(a));
        let term = |(by, digit): &(u64, Digit)| if *by == 1 { digit.expr() } else { digit.expr().mul(*by) };
        let constant = (self.constant > 0 || terms.is_empty()).then(|| Expr::constant(self.constant));
        let sum = terms.into_iter().map(term).chain(constant).reduce(|sum, term| sum.add(&term));
        sum.unwrap_or_else(|| Expr::constant(0))
    }
}

impl Digit {
    /// Whether `outer` is the digit right above this one.
    fn is_followed_by(&self, outer: &Self) -> bool {
        let end = self.modulus.and_then(|modulus| self.divisor.checked_mul(modulus));
        self.base == outer.base && end == Some(outer.divisor)
    }
}

impl From<Digit> for Sum {
    fn from(digit: Digit) -> Self {
        Self { constant: 0, terms: vec![(1, digit)] }.join()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
