//! Rules of the ops that move values, sample them, or make them from a formula.

use super::{Call, DType, Desc, Op, PLAIN, ShapeError, Site, same_shape};
use crate::graph::Shape;

pub(in crate::graph) fn concat(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::Concat { axis } = call.op else { return call.refuse(Site::Operands, "are not those of a concatenation") };
    let (dtype, axis) = (call.inputs[0].dtype, axis as usize);
    if !dtype.is_quantized() {
        call.dtype(0, PLAIN)?;
    }
    call.dtype(1, &[dtype])?;
    let (mut shape, b) = (call.shape(0), call.shape(1));
    if axis > 3 {
        return call.refuse(Site::Operands, format!("have no axis {axis}"));
    }
    (0..4).filter(|&a| a != axis).try_for_each(|a| call.extent(1, a, shape[a], "as that of operand 0"))?;
    match shape[axis].checked_add(b[axis]) {
        Some(sum) => shape[axis] = sum,
        None => return call.refuse(Site::Operands, format!("have more than 32 bits count on axis {axis}")),
    }
    Ok(Desc { dtype, shape })
}

/// An F32 output that the node declares and that has room for the operand after `before` elements.
fn room(call: &Call<'_>, before: Shape) -> Result<Desc, ShapeError> {
    call.floats()?;
    let (x, output) = (call.shape(0), call.asked()?.shape);
    let beyond = |&axis: &usize| u64::from(before[axis]) + u64::from(x[axis]) > u64::from(output[axis]);
    match (0..4).find(beyond) {
        Some(axis) => {
            let rule = format!("axis {axis} of {output:?} must hold {x:?} after {before:?} elements");
            call.refuse(Site::Output, rule)
        }
        None => Ok(Desc::f32(output)),
    }
}

pub(in crate::graph) fn pad(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::Pad { before } = call.op else { return call.refuse(Site::Operands, "are not those of a box in zeros") };
    room(call, before)
}

pub(in crate::graph) fn pad_circular(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::PadCircular { before } = call.op else {
        return call.refuse(Site::Operands, "are not those of circular padding");
    };
    room(call, before)
}

pub(in crate::graph) fn pad_reflect(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::PadReflect { before } = call.op else { return call.refuse(Site::Operands, "are not those of reflection") };
    let output = room(call, [before, 0, 0, 0])?;
    let x = call.shape(0);
    let after = output.shape[0] - x[0] - before;
    if before >= x[0] || after >= x[0] || output.shape[1..] != x[1..] {
        let rule = format!("is {:?}; {x:?} can be mirrored along axis 0, by less than its extent", output.shape);
        return call.refuse(Site::Output, rule);
    }
    Ok(output)
}

pub(in crate::graph) fn roll(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::Roll { shift } = call.op else { return call.refuse(Site::Operands, "are not those of a roll") };
    let x = call.shape(0);
    // The least of 32 bits cannot be rolled back.
    match (0..4).find(|&axis| shift[axis].unsigned_abs() >= x[axis].min(1 << 31)) {
        Some(axis) => call.refuse(Site::Operand(0), format!("axis {axis} of {x:?} cannot roll by {}", shift[axis])),
        None => same_shape(call),
    }
}

pub(in crate::graph) fn diag(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    call.extent(0, 1, 1, "for it is a diagonal")?;
    let [n, _, n2, n3] = call.shape(0);
    Ok(Desc::f32([n, n, n2, n3]))
}

pub(in crate::graph) fn tri(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.extent(0, 1, call.shape(0)[0], "as axis 0, for the matrix is square")?;
    same_shape(call)
}

pub(in crate::graph) fn upscale(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    Ok(Desc::f32(call.asked()?.shape))
}

pub(in crate::graph) fn fill(call: &Call<'_>) -> Result<Desc, ShapeError> {
    Ok(Desc::f32(call.asked()?.shape))
}

pub(in crate::graph) fn arange(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let [n, ..] = call.asked()?.shape;
    Ok(Desc::f32([n, 1, 1, 1]))
}

pub(in crate::graph) fn timestep(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let steps = call.vector(0, DType::F32)?;
    Ok(Desc::f32([call.asked()?.shape[0], steps, 1, 1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    /// A gradient rolls the other way.
    #[test]
    fn what_cannot_be_rolled_back_is_not_rolled() {
        let mut graph = Graph::new();
        let x = graph.external("x", DType::F32, [u32::MAX, 1, 1, 1]);
        let mut roll = |steps| graph.node("y", Op::Roll { shift: [steps, 0, 0, 0] }, vec![graph.whole(x)]);
        let refusal = roll(i32::MIN).unwrap_err().to_string();
        assert!(refusal.ends_with("axis 0 of [4294967295, 1, 1, 1] cannot roll by -2147483648"), "{refusal}");
        let y = roll(-i32::MAX).unwrap();
        graph.backward(y, &[x]).unwrap();
    }
}
