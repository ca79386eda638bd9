#ifndef COS_SIN
#define COS_SIN

// Cosine and sine to 1e-7 for angles up to 2^13 and 2e-6 up to 2^17, where the angle itself is rounded by 8e-3; the built-in
// ones promise 2^-11 within one turn only. The quarter turns are taken off in three parts of pi/2, the first two of which
// have few enough bits for exact products.
vec2 cos_sin(float angle) {
    float turns = round(angle * 0.636619772367581);
    precise float r = angle - turns * 1.5703125;
    r = r - turns * 4.837512969970703e-4;
    r = r - turns * 7.549789948768648e-8;
    float z = r * r;
    float s = r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
    float c = 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5));
    int quarter = int(turns) & 3;
    vec2 swapped = (quarter & 1) != 0 ? vec2(s, c) : vec2(c, s);
    return vec2(quarter == 1 || quarter == 2 ? -swapped.x : swapped.x, quarter >= 2 ? -swapped.y : swapped.y);
}

#endif
