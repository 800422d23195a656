// The instructions of a program, one after the other. A program is a list of 64-bit words:
//     opcode, number of words, operands ...
// A tensor is 12 words: address, type, 5 sizes, 5 strides (in elements). Missing dimensions stand in front, of size 1.
// Types: 0 float32, 1 int64, 2 bool, 3 float64, 4 int32.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#if defined(__AMX_INT8__) && defined(__AVX512VNNI__) && defined(__linux__)
#define TILES 1
#include <sys/syscall.h>
#include <unistd.h>
#else
#define TILES 0
#endif

typedef int64_t I;
typedef float F;
#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
typedef F V __attribute__((vector_size(4 * W), aligned(4), may_alias));

static inline V load(const F* p) { return *(const V*)p; }
static inline void store(F* p, V v) { *(V*)p = v; }
static inline F sum(V v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#elif defined(__AVX2__)
  __m128 a = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
  a = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps(a, a, 1)));
#else
  F s = 0;
  for (int i = 0; i < W; i++) s += v[i];
  return s;
#endif
}

static inline F maximum(V v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v);
#else
  F most = -INFINITY;
  for (int i = 0; i < W; i++) most = v[i] > most ? v[i] : most;
  return most;
#endif
}

static inline bool any_above(V v, F x) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(x), _CMP_GT_OQ);
#else
  return maximum(v) > x;
#endif
}

// The sums of four vectors, side by side.
typedef F V4 __attribute__((vector_size(16), aligned(4), may_alias));
static inline V4 sums(V a, V b, V c, V d) {
#if defined(__AVX512F__)
  __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b), _mm512_unpackhi_ps((__m512)a, (__m512)b));
  __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d), _mm512_unpackhi_ps((__m512)c, (__m512)d));
  __m512 s = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(s), 1)));
  return (V4)_mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
#elif defined(__AVX2__)
  __m256 ab = _mm256_hadd_ps((__m256)a, (__m256)b), cd = _mm256_hadd_ps((__m256)c, (__m256)d);
  __m256 s = _mm256_hadd_ps(ab, cd);
  return (V4)_mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
#else
  return V4{sum(a), sum(b), sum(c), sum(d)};
#endif
}

// ---- functions of one number, without branches, so that compilers make vectors of their loops

static inline F exp_(F x) {  // to 2 units in the last place
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.7f ? 88.7f : x;
  F n = __builtin_rintf(x * 1.44269504f), f = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  F p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  int32_t i = ((int32_t)n + 127) << 23;
  F s;
  memcpy(&s, &i, 4);
  return p * s;
}
static inline F expm_(F x) { return x < -87.3f ? 0.0f : exp_(x); }  // 0 where it underflows
static inline F tanh_(F x) {
  F y = fabsf(x), e = exp_(-2 * y), r = (1 - e) / (1 + e), s = x * x;
  F small = x * (1 + s * (-0.33333334f + s * (0.13333334f + s * -0.053968254f)));
  r = x < 0 ? -r : r;
  return y < 0.15f ? small : r;
}
static inline F sigmoid_(F x) { return 1 / (1 + exp_(-x)); }
static inline F erf_(F a) {
  F t = fabsf(a), s = a * a, r, u, q;
  r = -1.72853470e-5f * t + 3.83197126e-4f;
  u = -3.88396438e-3f * t + 2.42546219e-2f;
  r = r * s + u;
  r = r * t - 1.06777877e-1f;
  r = r * t - 6.34846687e-1f;
  r = r * t - 1.28717512e-1f;
  r = r * t - t;
  r = 1 - exp_(r);
  r = a < 0 ? -r : r;
  q = -5.96761703e-4f;
  q = q * s + 4.99119423e-3f;
  q = q * s - 2.67681349e-2f;
  q = q * s + 1.12819925e-1f;
  q = q * s - 3.76125336e-1f;
  q = q * s + 1.28379166e-1f;
  q = q * a + a;
  return t > 0.927734375f ? r : q;
}

#define UNARY(X)                                                                       \
  X(copy, x) X(neg, -x) X(exp, expm_(x)) X(log, logf(x)) X(sqrt, sqrtf(x))             \
  X(rsqrt, 1 / sqrtf(x)) X(tanh, tanh_(x)) X(sigmoid, sigmoid_(x))                     \
  X(relu, x > 0 ? x : (x == x ? 0.0f : x)) X(gelu, 0.5f * x * (1 + erf_(x * 0.70710678f)))  \
  X(gelu_tanh, x / (1 + exp_(-1.59576912f * (x + 0.044715f * x * x * x))))             \
  X(silu, x * sigmoid_(x)) X(abs, fabsf(x)) X(sin, sinf(x)) X(cos, cosf(x))            \
  X(reciprocal, 1 / x) X(square, x * x) X(softplus, x > 20 ? x : log1pf(exp_(x)))      \
  X(log_sigmoid, -(x < -20 ? -x : log1pf(exp_(-x)))) X(floor, floorf(x)) X(logical_not, x == 0 ? 1.0f : 0.0f)
#define BINARY(X)                                                                      \
  X(add, x + y) X(sub, x - y) X(mul, x * y) X(div, x / y) X(pow, powf(x, y))           \
  X(minimum, x != x ? x : x < y ? x : y) X(maximum, x != x ? x : x > y ? x : y)        \
  X(le, x <= y ? 1.0f : 0.0f) X(lt, x < y ? 1.0f : 0.0f)                               \
  X(eq, x == y ? 1.0f : 0.0f) X(ne, x != y ? 1.0f : 0.0f)
// those that are made in float64, for whole numbers and truth values
#define BINARY_WIDE(X)                                                                 \
  X(add, x + y) X(sub, x - y) X(mul, x * y) X(div, x / y) X(pow, pow(x, y))            \
  X(minimum, x < y ? x : y) X(maximum, x > y ? x : y) X(le, x <= y) X(lt, x < y)       \
  X(eq, x == y) X(ne, x != y) X(logical_and, x != 0 && y != 0)                         \
  X(logical_or, x != 0 || y != 0) X(remainder, x - y * floor(x / y)) X(floor_divide, floor(x / y))

enum Unary {
#define X(name, e) U_##name,
  UNARY(X)
#undef X
};
enum Binary {
#define X(name, e) B_##name,
  BINARY(X)
#undef X
  B_logical_and, B_logical_or, B_remainder, B_floor_divide
};

struct T {
  char* p;
  I type;
  const I *n, *s;
  explicit T(const I* q) : p((char*)q[0]), type(q[1]), n(q + 2), s(q + 7) {}
  F* f() const { return (F*)p; }
};
constexpr I TENSOR = 12;

static inline double get(const char* p, I type, I i) {
  switch (type) {
    case 0: return ((const F*)p)[i];
    case 1: return (double)((const I*)p)[i];
    case 2: return ((const uint8_t*)p)[i];
    case 3: return ((const double*)p)[i];
    default: return ((const int32_t*)p)[i];
  }
}
static inline void set(char* p, I type, I i, double v) {
  switch (type) {
    case 0: ((F*)p)[i] = (F)v; break;
    case 1: ((I*)p)[i] = (I)v; break;
    case 2: ((uint8_t*)p)[i] = v != 0; break;
    case 3: ((double*)p)[i] = v; break;
    default: ((int32_t*)p)[i] = (int32_t)v;
  }
}

// Calls g(offset of each operand) for all but the last dimension.
template <int N, class G>
static inline void rows(const I* n, const I* const* s, G g) {
  for (I i = 0; i < n[0]; i++)
    for (I j = 0; j < n[1]; j++)
      for (I k = 0; k < n[2]; k++)
        for (I l = 0; l < n[3]; l++) {
          I at[N];
          for (int t = 0; t < N; t++) at[t] = i * s[t][0] + j * s[t][1] + k * s[t][2] + l * s[t][3];
          g(at);
        }
}

template <class G>
static void each1(const T& o, const T& a, G g) {
  const I* s[2] = {o.s, a.s};
  I n = o.n[4], so = o.s[4], sa = a.s[4];
  rows<2>(o.n, s, [&](const I* at) {
    F* __restrict y = o.f() + at[0];
    const F* x = a.f() + at[1];
    if (so == 1 && sa == 1)
      for (I m = 0; m < n; m++) y[m] = g(x[m]);
    else
      for (I m = 0; m < n; m++) y[m * so] = g(x[m * sa]);
  });
}
template <class G>
static void each2(const T& o, const T& a, const T& b, G g) {
  const I* s[3] = {o.s, a.s, b.s};
  I n = o.n[4], so = o.s[4], sa = a.s[4], sb = b.s[4];
  rows<3>(o.n, s, [&](const I* at) {
    F* y = o.f() + at[0];
    const F *x = a.f() + at[1], *z = b.f() + at[2];
    if (so == 1 && sa == 1 && sb == 1) {
      for (I m = 0; m < n; m++) y[m] = g(x[m], z[m]);
    } else if (so == 1 && sa == 1 && sb == 0) {
      F c = *z;
      for (I m = 0; m < n; m++) y[m] = g(x[m], c);
    } else if (so == 1 && sa == 0 && sb == 1) {
      F c = *x;
      for (I m = 0; m < n; m++) y[m] = g(c, z[m]);
    } else {
      for (I m = 0; m < n; m++) y[m * so] = g(x[m * sa], z[m * sb]);
    }
  });
}
template <class G>
static void wide1(const T& o, const T& a, G g) {
  const I* s[2] = {o.s, a.s};
  rows<2>(o.n, s, [&](const I* at) {
    for (I m = 0; m < o.n[4]; m++)
      set(o.p, o.type, at[0] + m * o.s[4], g(get(a.p, a.type, at[1] + m * a.s[4])));
  });
}
template <class G>
static void wide2(const T& o, const T& a, const T& b, G g) {
  const I* s[3] = {o.s, a.s, b.s};
  rows<3>(o.n, s, [&](const I* at) {
    for (I m = 0; m < o.n[4]; m++)
      set(o.p, o.type, at[0] + m * o.s[4],
          g(get(a.p, a.type, at[1] + m * a.s[4]), get(b.p, b.type, at[2] + m * b.s[4])));
  });
}

static void unary(I op, const T& o, const T& a) {
  if (o.type == 0 && a.type == 0) {
    switch (op) {
#define X(name, e) case U_##name: return each1(o, a, [](F x) { return (F)(e); });
      UNARY(X)
#undef X
    }
  }
  switch (op) {
    case U_copy: return wide1(o, a, [](double x) { return x; });
    case U_neg: return wide1(o, a, [](double x) { return -x; });
    case U_exp: return wide1(o, a, [](double x) { return exp(x); });
    case U_log: return wide1(o, a, [](double x) { return log(x); });
    case U_sqrt: return wide1(o, a, [](double x) { return sqrt(x); });
    case U_rsqrt: return wide1(o, a, [](double x) { return 1 / sqrt(x); });
    case U_sin: return wide1(o, a, [](double x) { return sin(x); });
    case U_cos: return wide1(o, a, [](double x) { return cos(x); });
    case U_abs: return wide1(o, a, [](double x) { return fabs(x); });
    case U_floor: return wide1(o, a, [](double x) { return floor(x); });
    case U_square: return wide1(o, a, [](double x) { return x * x; });
    case U_reciprocal: return wide1(o, a, [](double x) { return 1 / x; });
    case U_logical_not: return wide1(o, a, [](double x) { return x == 0; });
    case U_relu: return wide1(o, a, [](double x) { return x > 0 ? x : 0; });
    case U_sigmoid: return wide1(o, a, [](double x) { return 1 / (1 + exp(-x)); });
    case U_tanh: return wide1(o, a, [](double x) { return tanh(x); });
  }
}
static void binary(I op, const T& o, const T& a, const T& b) {
  if (o.type == 0 && a.type == 0 && b.type == 0) {
    switch (op) {
#define X(name, e) case B_##name: return each2(o, a, b, [](F x, F y) { return (F)(e); });
      BINARY(X)
#undef X
    }
  }
  switch (op) {
#define X(name, e) case B_##name: return wide2(o, a, b, [](double x, double y) { return (double)(e); });
    BINARY_WIDE(X)
#undef X
  }
}
static void where(const T& o, const T& c, const T& a, const T& b) {
  const I* s[4] = {o.s, c.s, a.s, b.s};
  rows<4>(o.n, s, [&](const I* at) {
    for (I m = 0; m < o.n[4]; m++) {
      bool yes = get(c.p, c.type, at[1] + m * c.s[4]) != 0;
      set(o.p, o.type, at[0] + m * o.s[4],
          yes ? get(a.p, a.type, at[2] + m * a.s[4]) : get(b.p, b.type, at[3] + m * b.s[4]));
    }
  });
}
// y = x + c * a * b
static void addcmul(const T& o, const T& x, const T& a, const T& b, F c) {
  const I* s[4] = {o.s, x.s, a.s, b.s};
  I n = o.n[4];
  bool all = o.s[4] == 1 && x.s[4] == 1 && a.s[4] == 1 && b.s[4] == 1;
  rows<4>(o.n, s, [&](const I* at) {
    F* y = o.f() + at[0];
    const F *p = x.f() + at[1], *q = a.f() + at[2], *r = b.f() + at[3];
    if (all)
      for (I m = 0; m < n; m++) y[m] = p[m] + c * q[m] * r[m];
    else
      for (I m = 0; m < n; m++) y[m * o.s[4]] = p[m * x.s[4]] + c * q[m * a.s[4]] * r[m * b.s[4]];
  });
}
// The k largest numbers along the last dimension, the largest first, and where they stand.
static void topk(const T& x, const T& values, const T& places, I k) {
  static thread_local std::vector<uint8_t> taken;
  const I* s[3] = {x.s, values.s, places.s};
  rows<3>(x.n, s, [&](const I* at) {
    const F* row = x.f() + at[0];
    taken.assign(x.n[4], 0);
    for (I j = 0; j < k; j++) {
      I best = -1;
      for (I i = 0; i < x.n[4]; i++)
        if (!taken[i] && (best < 0 || row[i * x.s[4]] > row[best * x.s[4]])) best = i;
      taken[best] = 1;
      set(values.p, values.type, at[1] + j * values.s[4], row[best * x.s[4]]);
      set(places.p, places.type, at[2] + j * places.s[4], (double)best);
    }
  });
}

// Of a row of n numbers the k largest, the largest first, of equals those in front, and where they stand.
static void largest(const F* x, I n, I k, F* values, I* places) {
  for (I j = 0; j < k; j++) values[j] = -INFINITY, places[j] = 0;
  constexpr I BLOCK = 4 * W;
  for (I i = 0; i < n; i += BLOCK) {
    I end = i + BLOCK < n ? i + BLOCK : n;
    if (end == i + BLOCK) {  // most blocks have none of them
      V a = load(x + i), b = load(x + i + W), c = load(x + i + 2 * W), d = load(x + i + 3 * W);
      a = a > b ? a : b, c = c > d ? c : d, a = a > c ? a : c;
      if (!any_above(a, values[k - 1])) continue;
    }
    for (I p = i; p < end; p++) {
      if (!(x[p] > values[k - 1])) continue;
      I j = k - 1;
      for (; j > 0 && x[p] > values[j - 1]; j--) values[j] = values[j - 1], places[j] = places[j - 1];
      values[j] = x[p], places[j] = p;
    }
  }
}
static F highest(const F* x, I n) {
  V mosts = V{} - INFINITY;
  I i = 0;
  for (; i + W <= n; i += W) {
    V v = load(x + i);
    mosts = v > mosts ? v : mosts;
  }
  F most = maximum(mosts);
  for (; i < n; i++) most = x[i] > most ? x[i] : most;
  return most;
}
static F log_sum(const F* x, I n, F most) {  // of e^x, of which `most` is the highest
  V sums = {};
  F total = 0, part[4 * W];
  I i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    for (int j = 0; j < 4 * W; j++) part[j] = expm_(x[i + j] - most);
    sums += (load(part) + load(part + W)) + (load(part + 2 * W) + load(part + 3 * W));
  }
  for (; i < n; i++) total += expm_(x[i] - most);
  return most + logf(sum(sums) + total);
}

static void iota(const T& o, I begin, I step) {
  const I* s[1] = {o.s};
  I at_row = 0;
  rows<1>(o.n, s, [&](const I* at) {
    for (I m = 0; m < o.n[4]; m++) set(o.p, o.type, at[0] + m * o.s[4], (double)(begin + (at_row + m) * step));
    at_row += o.n[4];
  });
}

// ---- threads

typedef void (*Parallel)(void (*work)(void*), void* data, unsigned threads, unsigned flags);  // OpenMP's GOMP_parallel
static Parallel parallel = nullptr;
static thread_local I threads = 1;  // that make what this thread asks for
constexpr I WORTH = 200000;         // multiplications in a call, for other threads to be asked
constexpr I PER_THREAD = 4;         // parts of a product
// work(part) for each of so many parts: the threads take one after the other, so that one which the system holds up
// delays what it has taken, and no more.
template <class Work>
static void in_parts(I count, I worth, const Work& work) {
  if (threads < 2 || count < 2 || worth < WORTH) {
    for (I part = 0; part < count; part++) work(part);
    return;
  }
  struct Shared {
    const Work& work;
    I count;
    std::atomic<I> next;
  } shared{work, count, {0}};
  auto take = [](void* data) {
    Shared& all = *(Shared*)data;
    for (I part; (part = all.next.fetch_add(1)) < all.count;) all.work(part);
  };
  parallel(take, &shared, (unsigned)threads, 0);
}

// ---- products

// R rows of w with C rows of x: vectors go along K; b: what is added (0: nothing)
template <int R, int C>
static inline void tile(const F* w, I K, const F* x, I ldx, F* y, I ldy, const F* b) {
  V a[R][C] = {};
  I k = 0;
  for (; k + W <= K; k += W) {
    V xs[C];
    for (int c = 0; c < C; c++) xs[c] = load(x + c * ldx + k);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      V v = load(w + r * K + k);
#pragma GCC unroll 8
      for (int c = 0; c < C; c++) a[r][c] += v * xs[c];
    }
  }
  for (int c = 0; c < C; c++) {
    F s[R];
    if constexpr (R == 4) *(V4*)s = sums(a[0][c], a[1][c], a[2][c], a[3][c]);
    else for (int r = 0; r < R; r++) s[r] = sum(a[r][c]);
    for (int r = 0; r < R; r++) {
      for (I q = k; q < K; q++) s[r] += w[r * K + q] * x[c * ldx + q];
      y[c * ldy + r] = b ? s[r] + b[r] : s[r];
    }
  }
}
static inline void rows4(const F* w, I K, const F* x, F* y, const F* b) {  // two sums a row hide the latency
  V a[4][2] = {};
  I k = 0;
  for (; k + 2 * W <= K; k += 2 * W) {
    V p = load(x + k), q = load(x + k + W);
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
      a[r][0] += load(w + r * K + k) * p;
      a[r][1] += load(w + r * K + k + W) * q;
    }
  }
  V4 s = sums(a[0][0] + a[0][1], a[1][0] + a[1][1], a[2][0] + a[2][1], a[3][0] + a[3][1]);
  for (int r = 0; r < 4; r++) {
    F t = s[r];
    for (I q = k; q < K; q++) t += w[r * K + q] * x[q];
    y[r] = b ? t + b[r] : t;
  }
}
#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#define ACROSS 1
static inline void transpose(V* r) {  // W vectors
#if defined(__AVX512F__)
  __m512 t[W], u[W];
  for (int i = 0; i < W; i += 2) {
    t[i] = _mm512_unpacklo_ps((__m512)r[i], (__m512)r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps((__m512)r[i], (__m512)r[i + 1]);
  }
  auto pairs = [](__m512 a, __m512 b, bool high) {
    __m512d p = _mm512_castps_pd(a), q = _mm512_castps_pd(b);
    return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(p, q) : _mm512_unpacklo_pd(p, q));
  };
  for (int i = 0; i < W; i += 4)
    for (int j = 0; j < 4; j++) u[i + j] = pairs(t[i + j / 2], t[i + 2 + j / 2], j % 2);
  for (int j = 0; j < 4; j++) {
    __m512 a = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x88), b = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x88);
    __m512 c = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xdd), d = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xdd);
    r[j] = (V)_mm512_shuffle_f32x4(a, b, 0x88), r[8 + j] = (V)_mm512_shuffle_f32x4(a, b, 0xdd);
    r[4 + j] = (V)_mm512_shuffle_f32x4(c, d, 0x88), r[12 + j] = (V)_mm512_shuffle_f32x4(c, d, 0xdd);
  }
#else
  __m256 t[W], u[W];
  for (int i = 0; i < W; i += 2) {
    t[i] = _mm256_unpacklo_ps((__m256)r[i], (__m256)r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps((__m256)r[i], (__m256)r[i + 1]);
  }
  for (int i = 0; i < W; i += 4)
    for (int j = 0; j < 2; j++) {
      u[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + 2 + j], 0x44);
      u[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + 2 + j], 0xee);
    }
  for (int j = 0; j < 4; j++) {
    r[j] = (V)_mm256_permute2f128_ps(u[j], u[4 + j], 0x20);
    r[4 + j] = (V)_mm256_permute2f128_ps(u[j], u[4 + j], 0x31);
  }
#endif
}
constexpr I FEW = 12, MANY = 96;  // rows of x from which this pays, and that are transposed at a time at most
constexpr int ROWS = W / 2;       // of w at a time
// ROWS rows of w with C vectors of rows of x, of whose transpose rows lie P apart; each row of y is of one row of w.
// The next ROWS rows of w come into the cache meanwhile.
template <int C>
static inline void across(const F* w, I K, const F* x, I P, F* y) {
  V a[ROWS][C] = {};
  for (I k = 0; k < K; k++) {
    V xs[C];
    for (int c = 0; c < C; c++) xs[c] = load(x + k * P + c * W);
    __builtin_prefetch(w + (K + k) * ROWS);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
      V v = V{} + w[r * K + k];
#pragma GCC unroll 4
      for (int c = 0; c < C; c++) a[r][c] += v * xs[c];
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < C; c++) store(y + r * P + c * W, a[r][c]);
}
// What `linear` makes for several rows of x, W rows of w at a time: vectors go along the rows of x, so that nothing is
// summed across a vector. How many rows of w it was made for.
static I wide(const F* x, I ldx, const F* w, const F* b, F* y, I ldy, I M, I N, I K) {
  static thread_local std::vector<F> room;
  const I P = (M + W - 1) / W * W, whole = N / W * W;
  room.resize((K + W) * P + 16);  // with what is left out to begin at 64 bytes
  F *xt = room.data() + (64 - (uintptr_t)room.data() % 64) % 64 / 4, *part = xt + K * P;
  V block[W];
  for (I m = 0; m < P; m += W) {
    I k = 0;
    for (; k + W <= K; k += W) {
      for (I i = 0; i < W; i++) block[i] = m + i < M ? load(x + (m + i) * ldx + k) : V{};
      transpose(block);
      for (I i = 0; i < W; i++) store(xt + (k + i) * P + m, block[i]);
    }
    for (; k < K; k++)
      for (I i = 0; i < W; i++) xt[k * P + m + i] = m + i < M ? x[(m + i) * ldx + k] : 0;
  }
  for (I n = 0; n < whole; n += W) {
    for (I r = 0; r < W; r += ROWS) {
      const F* rows = w + (n + r) * K;
      for (I m = 0; m < P;) {
        const I left = (P - m) / W;
        F* to = part + r * P + m;
        if (left == 3 || left > 4) across<3>(rows, K, xt + m, P, to), m += 3 * W;
        else if (left > 1) across<2>(rows, K, xt + m, P, to), m += 2 * W;
        else across<1>(rows, K, xt + m, P, to), m += W;
      }
    }
    const V bias = b ? load(b + n) : V{};
    for (I m = 0; m < P; m += W) {
      for (I i = 0; i < W; i++) block[i] = load(part + i * P + m);
      transpose(block);
      for (I i = 0; i < W && m + i < M; i++) store(y + (m + i) * ldy + n, b ? block[i] + bias : block[i]);
    }
  }
  return whole;
}
#endif
// y (M, N) = x (M, K) w (N, K)^T + b; rows of x and y lie ldx and ldy apart, w is whole. `linear` in one thread
static void of_rows(const F* x, I ldx, const F* w, const F* b, F* y, I ldy, I M, I N, I K) {
  auto at = [&](I n) { return b ? b + n : 0; };
  I n = 0;
#if defined(ACROSS)
  if (M > MANY) {
    const I count = (M + MANY - 1) / MANY, each = ((M + count - 1) / count + W - 1) / W * W;
    for (I m = 0; m < M; m += each) of_rows(x + m * ldx, ldx, w, b, y + m * ldy, ldy, M - m < each ? M - m : each, N, K);
    return;
  }
  if (M >= FEW) n = wide(x, ldx, w, b, y, ldy, M, N, K);
#endif
  if (M == 1) {
    for (; n + 4 <= N; n += 4) rows4(w + n * K, K, x, y + n, at(n));
    for (; n < N; n++) tile<1, 1>(w + n * K, K, x, ldx, y + n, ldy, at(n));
    return;
  }
  constexpr int C = W == 16 ? 6 : 2;  // as many as there are registers for
  for (; n + 4 <= N; n += 4) {
    const F *row = w + n * K, *four = at(n);
    I m = 0;
    for (; m + C <= M; m += C) tile<4, C>(row, K, x + m * ldx, ldx, y + m * ldy + n, ldy, four);
    for (; C > 4 && m + 4 <= M; m += 4) tile<4, 4>(row, K, x + m * ldx, ldx, y + m * ldy + n, ldy, four);
    for (; C > 2 && m + 2 <= M; m += 2) tile<4, 2>(row, K, x + m * ldx, ldx, y + m * ldy + n, ldy, four);
    for (; m < M; m++) tile<4, 1>(row, K, x + m * ldx, ldx, y + m * ldy + n, ldy, four);
  }
  for (; n < N; n++)
    for (I m = 0; m < M; m++) tile<1, 1>(w + n * K, K, x + m * ldx, ldx, y + m * ldy + n, ldy, at(n));
}

static void linear(const F* x, I ldx, const F* w, const F* b, F* y, I ldy, I M, I N, I K) {
  constexpr I LEAST = 64;  // rows of w in a part
  const I most = PER_THREAD * threads, count = N / LEAST < most ? N / LEAST : most;
  if (count < 2) return of_rows(x, ldx, w, b, y, ldy, M, N, K);
  const I each = ((N + count - 1) / count + 15) / 16 * 16;
  in_parts((N + each - 1) / each, M * N * K, [&](I part) {
    const I n = part * each, rows = N - n < each ? N - n : each;
    of_rows(x, ldx, w + n * K, b ? b + n : 0, y + n, ldy, M, rows, K);
  });
}

// ---- products of bytes
//
// x is rounded to bytes, GROUP numbers with one scale; sums of products of bytes are exact, on every processor. A matrix
// stands in panels of PANEL rows: four bytes of each row in turn, then the next four. `offsets` are 128 times the sums
// of each row's groups, for processors that take bytes of x from 0 to 255.

constexpr int PANEL = 64, GROUP = 256, PER = 4, PART = PER * W;  // PART rows of a panel at a time
typedef int32_t VI __attribute__((vector_size(4 * W), aligned(4), may_alias));
#if defined(__AVX512VNNI__)
constexpr int SHIFT = 128;
static inline VI dot4(VI s, const int8_t* w, int32_t x) {
  return (VI)_mm512_dpbusd_epi32((__m512i)s, _mm512_set1_epi32(x), _mm512_loadu_si512(w));
}
#else
constexpr int SHIFT = 0;
#if defined(__AVX2__)
static inline __m256i dot4_256(__m256i s, const int8_t* w, __m256i x) {  // |x| times w with the sign of x
  __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(_mm256_loadu_si256((const __m256i*)w), x));
  return _mm256_add_epi32(s, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif
static inline VI dot4(VI s, const int8_t* w, int32_t x) {
#if defined(__AVX512F__)
  __m256i v = _mm256_set1_epi32(x);
  __m256i low = dot4_256(_mm512_castsi512_si256((__m512i)s), w, v);
  __m256i high = dot4_256(_mm512_extracti64x4_epi64((__m512i)s, 1), w + 32, v);
  return (VI)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#elif defined(__AVX2__)
  return (VI)dot4_256((__m256i)s, w, _mm256_set1_epi32(x));
#else
  int8_t q[4];
  memcpy(q, &x, 4);
  for (int i = 0; i < W; i++) s[i] += q[0] * w[4 * i] + q[1] * w[4 * i + 1] + q[2] * w[4 * i + 2] + q[3] * w[4 * i + 3];
  return s;
#endif
}
#endif
static inline V as_floats(VI v) { return __builtin_convertvector(v, V); }

// The largest of the sizes of n numbers; `wrong` is NaN where one is not finite, so that no product hides it, else 0.
static F most_of(const F* x, I n, F& wrong) {
  V mosts = {}, wrongs = {};
  I k = 0;
  for (; k + W <= n; k += W) {
    V v = load(x + k);
    wrongs += v - v;  // g++ takes v * 0 for 0
    VI size = (VI)v & 0x7fffffff, larger = (V)size > mosts;
    mosts = (V)((size & larger) | ((VI)mosts & ~larger));
  }
  F most = 0;
  wrong = sum(wrongs);
  for (int i = 0; i < W; i++) most = mosts[i] > most ? mosts[i] : most;
  for (; k < n; k++) {
    most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
    wrong += x[k] - x[k];
  }
  return most;
}
// Rows of x as bytes, each in `padded`, and a scale for each group.
static void to_bytes(const F* x, I ldx, I M, I K, I padded, uint8_t* q, F* scales) {
  for (I m = 0; m < M; m++)
    for (I g = 0; g < padded; g += GROUP) {
      const F* row = x + m * ldx + g;
      I n = K - g < GROUP ? K - g : GROUP;
      F wrong, most = most_of(row, n, wrong), step = most > 0 ? 127 / most : 0;
      *scales++ = most / 127 + wrong;
      uint8_t* to = q + m * padded + g;
      I k = 0;
#if defined(__AVX512F__)
      for (; k + W <= n; k += W) {
        __m512i whole = _mm512_cvtps_epi32((__m512)(load(row + k) * step));
        _mm_storeu_si128((__m128i*)(to + k), _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, _mm512_set1_epi32(SHIFT))));
      }
#endif
      for (; k < n; k++) to[k] = (uint8_t)((int32_t)__builtin_rintf(row[k] * step) + SHIFT);
      for (I k = n; k < GROUP && g + k < padded; k++) to[k] = SHIFT;
    }
}
// R rows of bytes with a part of a panel: t (R, PART)
template <int R>
static inline void part_of_panel(
    const int8_t* w, const uint8_t* x, I padded, const F* scales, I groups, const int32_t* offsets, I ldo, F* t) {
  for (I g = 0; g < groups; g++, offsets += ldo) {
    VI a[R][PER];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
      for (int p = 0; p < PER; p++) a[r][p] = SHIFT ? -*(const VI*)(offsets + p * W) : VI{};
    I end = (g + 1) * GROUP < padded ? (g + 1) * GROUP : padded;
    for (I k = g * GROUP; k < end; k += 4) {
      const int8_t* v = w + k * PANEL;
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) {
        int32_t four;
        memcpy(&four, x + r * padded + k, 4);
#pragma GCC unroll 8
        for (int p = 0; p < PER; p++) a[r][p] = dot4(a[r][p], v + 4 * W * p, four);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
      for (int p = 0; p < PER; p++) {
        V s = as_floats(a[r][p]) * scales[r * groups + g];
        F* to = t + r * PART + p * W;
        store(to, g ? load(to) + s : s);
      }
  }
}
// A matrix w (N, K) as bytes, as `Packed` says: the largest number of each row becomes 127. What rows of its panels there
// are more are left as they are.
extern "C" void pack(const F* w, I N, I K, int8_t* panels, F* scales, int32_t* offsets) {
  I padded = (K + 3) / 4 * 4, whole = (N + PANEL - 1) / PANEL * PANEL;
  std::vector<int8_t> bytes(padded, 0);
  for (I n = 0; n < N; n++, w += K) {
    F wrong, scale = most_of(w, K, wrong) / 127, step = scale > 0 ? scale : 1;
    scales[n] = scale + wrong;
    for (I i = 0; i < K; i++) {
      F q = __builtin_rintf(w[i] / step);
      q = q > 127 ? 127 : q;
      bytes[i] = (int8_t)(int32_t)(q < -127 ? -127 : q);
    }
    int8_t* to = panels + n / PANEL * PANEL * padded + n % PANEL * 4;
    for (I i = 0; i < padded; i += 4) memcpy(to + i * PANEL, &bytes[i], 4);
    for (I g = 0; g * GROUP < padded; g++) {
      int32_t total = 0;
      for (I i = g * GROUP, end = i + GROUP < padded ? i + GROUP : padded; i < end; i++) total += bytes[i];
      offsets[g * whole + n] = 128 * total;
    }
  }
}
struct Bytes {  // a matrix: panels, the scales of its rows, offsets (groups, rows)
  const int8_t* panels;
  const F* scales;
  const int32_t* offsets;
};
#if TILES
// Tiles of 16 rows of 64 bytes: four tiles of sums, of 32 rows of x with 32 rows of a panel, at a time.
constexpr I TILE = 16, FEWEST = 4, FASTER = 8;  // rows of x from which tiles are faster; and about how many times
static bool have_tiles() {  // the system must be asked once
  static const bool granted = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
  return granted;
}
struct alignas(64) Tiles {
  uint8_t palette = 1, begin = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// What tiles have summed, of up to 32 rows of x from `m` on with 32 rows of a panel from `n` on and group `g`: made
// numbers, and added to those of the groups before in t, or with the last group to what y gets.
struct Block {
  I n, m, g;
};
template <bool FIRST, bool LAST>
static inline void take_block(
    const int32_t* sums, const Block& at, const F* steps, Bytes w, const F* b, F* y, I ldy, I rows, I count, I groups,
    I whole, F* t) {
  const int32_t* offsets = w.offsets + at.g * whole + at.n;
  VI off[2] = {*(const VI*)offsets, *(const VI*)(offsets + TILE)};
  alignas(64) F more[2 * TILE] = {};
  if (LAST && b) memcpy(more, b + at.n, 4 * count);
  V scale[2] = {load(w.scales + at.n), load(w.scales + at.n + TILE)}, bias[2] = {load(more), load(more + TILE)};
  for (I r = 0; r < rows; r++) {
    F step = steps[(at.m + r) * groups + at.g], *row = t + r * 2 * TILE, *to = y + (at.m + r) * ldy + at.n;
#pragma GCC unroll 2
    for (I p = 0; p < 2; p++) {
      V s = as_floats(*(const VI*)(sums + (r / TILE * 2 + p) * TILE * TILE + r % TILE * TILE) - off[p]) * step;
      if (!FIRST) s += load(row + p * TILE);
      if (LAST) s = s * scale[p] + bias[p];
      store(LAST && count == 2 * TILE ? to + p * TILE : row + p * TILE, s);
    }
    if (LAST && count < 2 * TILE) memcpy(to, row, 4 * count);
  }
}
static void by_tiles(  // with the rows of w from `first`, the first of a panel, up to `end`
    I first, I end, const uint8_t* q, const F* steps, Bytes w, const F* b, F* y, I ldy, I M, I N, I padded, I groups,
    I whole) {
  alignas(64) int32_t sums[2][4 * TILE * TILE];
  alignas(64) F t[2 * TILE * 2 * TILE];
  auto most = [](I left) { return left < 2 * TILE ? left : 2 * TILE; };
  const bool flat = M <= TILE;  // then 64 rows of a panel at a time, so that its bytes are read one after the other
  auto take = [&](Block at, const int32_t* made) {
    auto f = at.g ? (at.g + 1 < groups ? take_block<false, false> : take_block<false, true>)
                  : (groups > 1 ? take_block<true, false> : take_block<true, true>);
    f(made, at, steps, w, b, y, ldy, most(M - at.m), most(N - at.n), groups, whole, t);
    at.n += 2 * TILE;
    if (flat && at.n < N)  // a panel ends where a part does
      f(made + 2 * TILE * TILE, at, steps, w, b, y, ldy, M, most(N - at.n), groups, whole, t + 2 * TILE * TILE);
  };
  const Tiles tiles;
  _tile_loadconfig(&tiles);
  Block before{-1, 0, 0};  // is taken while tiles make the next
  I turn = 0;
  for (I n = first; n < end; n += flat ? PANEL : 2 * TILE) {
    const int8_t* panel = w.panels + n / PANEL * PANEL * padded + n % PANEL * 4;
    for (I m = 0; m < M; m += 2 * TILE) {
      bool both = M - m > TILE;
      for (I g = 0; g < groups; g++, turn ^= 1) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        I last = (g + 1) * GROUP < padded ? (g + 1) * GROUP : padded;
        for (I k = g * GROUP; k < last; k += 64) {
          const uint8_t* x = q + m * padded + k;
          _tile_loadd(4, x, padded);
          _tile_loadd(6, panel + k * PANEL, 4 * PANEL);
          _tile_loadd(7, panel + k * PANEL + 4 * TILE, 4 * PANEL);
          _tile_dpbusd(0, 4, 6);
          _tile_dpbusd(1, 4, 7);
          if (both) {
            _tile_loadd(5, x + TILE * padded, padded);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
          } else if (flat) {
            _tile_loadd(6, panel + k * PANEL + 8 * TILE, 4 * PANEL);
            _tile_loadd(7, panel + k * PANEL + 12 * TILE, 4 * PANEL);
            _tile_dpbusd(2, 4, 6);
            _tile_dpbusd(3, 4, 7);
          }
        }
        int32_t* to = sums[turn];
        _tile_stored(0, to, 4 * TILE);
        _tile_stored(1, to + TILE * TILE, 4 * TILE);
        _tile_stored(2, to + 2 * TILE * TILE, 4 * TILE);
        _tile_stored(3, to + 3 * TILE * TILE, 4 * TILE);
        if (before.n >= 0) take(before, sums[turn ^ 1]);
        before = {n, m, g};
      }
    }
  }
  take(before, sums[turn ^ 1]);
  _tile_release();
}
#endif
struct alignas(64) Line {  // of a cache: tiles are loaded twice as fast where no row of them lies in two
  uint8_t bytes[64];
};
static thread_local std::vector<Line> rounded;
static thread_local std::vector<F> steps;
static void linear(const F* x, I ldx, Bytes w, const F* b, F* y, I ldy, I M, I N, I K) {
  constexpr int R = W == 16 ? 6 : 2;
  I padded = (K + 3) / 4 * 4, groups = (padded + GROUP - 1) / GROUP, whole = (N + PANEL - 1) / PANEL * PANEL;
  rounded.resize(((M + 31) / 32 * 32 * padded + 63) / 64);  // in whole tiles
  uint8_t* const bytes = (uint8_t*)rounded.data();
  steps.resize(M * groups);
  to_bytes(x, ldx, M, K, padded, bytes, steps.data());
#if TILES
  if (M >= FEWEST && padded % 64 == 0 && have_tiles()) {
    const I panels = whole / PANEL, most = PER_THREAD * threads, each = (panels + most - 1) / most;
    return in_parts((panels + each - 1) / each, M * N * K / FASTER, [&, scales = steps.data()](I part) {
      const I n = part * each * PANEL, end = n + each * PANEL < N ? n + each * PANEL : N;
      by_tiles(n, end, bytes, scales, w, b, y, ldy, M, N, padded, groups, whole);
    });
  }
#endif
  in_parts((N + PART - 1) / PART, M * N * K, [&, scales = steps.data()](I number) {
    F t[R * PART];
    const I n = number * PART;
    const int8_t* panel = w.panels + n / PANEL * PANEL * padded + n % PANEL * 4;
    I count = N - n < PART ? N - n : PART;
    for (I m = 0; m < M;) {
      const uint8_t* q = bytes + m * padded;
      const F* s = scales + m * groups;
      I rows = M - m >= R ? R : M - m >= 4 && R > 4 ? 4 : M - m >= 2 ? 2 : 1;
      auto part = [&](auto f) { f(panel, q, padded, s, groups, w.offsets + n, whole, t); };
      if (rows == R) part(part_of_panel<R>);
      else if (rows == 4) part(part_of_panel<4>);
      else if (rows == 2) part(part_of_panel<2>);
      else part(part_of_panel<1>);
      for (I r = 0; r < rows; r++, m++) {
        F* to = y + m * ldy + n;
        if (b) for (I i = 0; i < count; i++) to[i] = t[r * PART + i] * w.scales[n + i] + b[n + i];
        else for (I i = 0; i < count; i++) to[i] = t[r * PART + i] * w.scales[n + i];
      }
    }
  });
}
static inline F dot(const F* a, const F* b, I n) {
  V s = {}, t = {};
  I k = 0;
  for (; k + 2 * W <= n; k += 2 * W) {
    s += load(a + k) * load(b + k);
    t += load(a + k + W) * load(b + k + W);
  }
  for (; k + W <= n; k += W) s += load(a + k) * load(b + k);
  F r = sum(s + t);
  for (; k < n; k++) r += a[k] * b[k];
  return r;
}
static inline void add_scaled(F* y, const F* x, F c, I n) {
  for (I i = 0; i < n; i++) y[i] += c * x[i];
}
// o (..., M, N) = a (..., M, K) b (..., K, N), plus o itself where `more`
static void matmul(const T& o, const T& a, const T& b, I more) {
  I M = o.n[3], N = o.n[4], K = a.n[4];
  for (I i = 0; i < o.n[0]; i++)
    for (I j = 0; j < o.n[1]; j++)
      for (I h = 0; h < o.n[2]; h++) {
        F* y = o.f() + i * o.s[0] + j * o.s[1] + h * o.s[2];
        const F *x = a.f() + i * a.s[0] + j * a.s[1] + h * a.s[2], *w = b.f() + i * b.s[0] + j * b.s[1] + h * b.s[2];
        for (I m = 0; m < M; m++) {
          F* r = y + m * o.s[3];
          if (a.s[4] == 1 && b.s[3] == 1) {
            for (I n = 0; n < N; n++) {
              F s = dot(x + m * a.s[3], w + n * b.s[4], K);
              r[n * o.s[4]] = more ? r[n * o.s[4]] + s : s;
            }
            continue;
          }
          if (!more) for (I n = 0; n < N; n++) r[n * o.s[4]] = 0;
          for (I k = 0; k < K; k++) {
            F c = x[m * a.s[3] + k * a.s[4]];
            const F* q = w + k * b.s[3];
            if (o.s[4] == 1 && b.s[4] == 1) add_scaled(r, q, c, N);
            else for (I n = 0; n < N; n++) r[n * o.s[4]] += c * q[n * b.s[4]];
          }
        }
      }
}

// ---- rows

static void norm(const F* x, const F* w, const F* b, F* y, I R, I n, I rms, F eps) {
  for (I r = 0; r < R; r++, x += n, y += n) {
    V s4 = {};
    F mean = 0, off = 0;
    I i = 0;
    if (!rms) {
      for (; i + W <= n; i += W) s4 += load(x + i);
      mean = sum(s4);
      s4 = V{};
      for (; i < n; i++) mean += x[i];
      mean /= n;
    }
    V t4 = {};
    F t = 0;
    for (i = 0; i + W <= n; i += W) { V d = load(x + i) - mean; t4 += d * d; s4 += d; }
    t = sum(t4);
    for (; i < n; i++) { F d = x[i] - mean; t += d * d; off += d; }
    if (!rms) {  // what rounding took from the mean: of equal numbers nothing may be left to divide by sqrt(eps)
      off = (off + sum(s4)) / n;
      t -= n * off * off;
      mean += off;
    }
    F c = 1 / sqrtf(t / n + eps);
    if (w && b) for (i = 0; i < n; i++) y[i] = (x[i] - mean) * c * w[i] + b[i];
    else if (w) for (i = 0; i < n; i++) y[i] = (x[i] - mean) * c * w[i];
    else if (b) for (i = 0; i < n; i++) y[i] = (x[i] - mean) * c + b[i];
    else for (i = 0; i < n; i++) y[i] = (x[i] - mean) * c;
  }
}
static F softmax_row(F* s, I n) {  // weights before they are divided; returns what divides them
  F most = highest(s, n), z = 0;
  I i = 0;
  if (most == -INFINITY) most = 0;
  for (I i = 0; i < n; i++) s[i] = expm_(s[i] - most);
  V t = {};
  for (; i + W <= n; i += W) t += load(s + i);
  z = sum(t);
  for (; i < n; i++) z += s[i];
  return z;
}
static void softmax(const F* x, F* y, I R, I n, I logarithm) {
  for (I r = 0; r < R; r++, x += n, y += n) {
    if (logarithm) {
      F l = log_sum(x, n, highest(x, n));
      for (I i = 0; i < n; i++) y[i] = x[i] - l;
      continue;
    }
    if (y != x) memcpy(y, x, 4 * n);
    F z = softmax_row(y, n);
    for (I i = 0; i < n; i++) y[i] /= z;
  }
}
// y = c times the sum of s_j x_j over n rows of x, a vector of E registers; two sums hide the latency
template <int E>
static inline void weighted(const F* s, const F* x, I stride, I n, F c, F* y) {
  V a[E] = {}, b[E] = {};
  I j = 0;
  for (; j + 2 <= n; j += 2, x += 2 * stride)
#pragma GCC unroll 8
    for (int i = 0; i < E; i++) {
      a[i] += s[j] * load(x + i * W);
      b[i] += s[j + 1] * load(x + stride + i * W);
    }
  if (j < n)
    for (int i = 0; i < E; i++) a[i] += s[j] * load(x + i * W);
  for (int i = 0; i < E; i++) store(y + i * W, c * (a[i] + b[i]));
}
static inline void weighted(const F* s, const F* x, I stride, I n, I e, F c, F* y) {
  I t = 0;
  for (; t + 4 * W <= e; t += 4 * W) weighted<4>(s, x + t, stride, n, c, y + t);
  for (; t + 2 * W <= e; t += 2 * W) weighted<2>(s, x + t, stride, n, c, y + t);
  for (; t + W <= e; t += W) weighted<1>(s, x + t, stride, n, c, y + t);
  if (t == e) return;
  for (I u = t; u < e; u++) y[u] = 0;
  for (I j = 0; j < n; j++)
    for (I u = t; u < e; u++) y[u] += c * s[j] * x[j * stride + u];
}
// s_j = scale x . k_j for n rows of k
static inline void scores(const F* x, const F* k, I stride, I n, I d, F scale, F* s) {
  I j = 0;
  if (d % W == 0)
    for (; j + 4 <= n; j += 4) {
      V a[4] = {};
      const F* r = k + j * stride;
      for (I i = 0; i < d; i += W) {
        V v = load(x + i);
        a[0] += v * load(r + i);
        a[1] += v * load(r + stride + i);
        a[2] += v * load(r + 2 * stride + i);
        a[3] += v * load(r + 3 * stride + i);
      }
      *(V4*)(s + j) = sums(a[0], a[1], a[2], a[3]) * scale;
    }
  for (; j < n; j++) s[j] = scale * dot(x, k + j * stride, d);
}
// Scores s of n keys as a mask leaves them; its numbers begin at `at`. masked: 1 of truth values, 2 added
static void mask_scores(F* s, const T& m, I at, I masked, I n) {
  if (masked == 1 && m.type == 2 && m.s[4] == 1) {
    for (I j = 0; j < n; j++) s[j] = m.p[at + j] ? s[j] : -INFINITY;
  } else if (masked == 2 && m.type == 0 && m.s[4] == 1) {
    for (I j = 0; j < n; j++) s[j] += m.f()[at + j];
  } else if (masked) {
    for (I j = 0; j < n; j++) {
      double a = get(m.p, m.type, at + j * m.s[4]);
      s[j] = masked == 1 ? (a != 0 ? s[j] : -INFINITY) : s[j] + (F)a;
    }
  }
}
// Weights of n scores, before they are divided by what is returned. Behind them is room up to a whole vector.
static inline F weights_of(F* s, I n) {
  const I whole = (n + W - 1) / W * W;
  for (I j = n; j < whole; j++) s[j] = -INFINITY;
  return softmax_row(s, whole);
}
static thread_local std::vector<F> scratch;
// q (B, H, L, d), k (B, Hk, n, d), v (B, Hk, n, e), mask (B, H, L, n): 0 none, 1 of truth values, 2 added; o (B, H, L, e)
static void attention(const T& q, const T& k, const T& v, const T& m, I masked, F scale, const T& o) {
  I L = q.n[3], n = k.n[3], d = q.n[4], e = v.n[4], H = q.n[2], group = H / k.n[2], count = q.n[1] * H;
  in_parts(count, count * L * n * (d + e), [&](I part) {
    const I b = part / H, h = part % H;
    const F *keys = k.f() + b * k.s[1] + h / group * k.s[2], *values = v.f() + b * v.s[1] + h / group * v.s[2];
    scratch.resize(n + W);
    F* s = scratch.data();
    for (I l = 0; l < L; l++) {
      scores(q.f() + b * q.s[1] + h * q.s[2] + l * q.s[3], keys, k.s[3], n, d, scale, s);
      mask_scores(s, m, b * m.s[1] + h * m.s[2] + l * m.s[3], masked, n);
      const F z = weights_of(s, n);
      weighted(s, values, v.s[3], n, e, z > 0 ? 1 / z : 0, o.f() + b * o.s[1] + h * o.s[2] + l * o.s[3]);
    }
  });
}
// Attention of many queries, QUERIES of them at once with PANES vectors of keys, and then with as many of the values.
constexpr int QUERIES = 6, PANES = W == 16 ? 4 : 2, PANE = PANES * W;
static thread_local std::vector<F> turned, filled, several;
// y (QUERIES, E W) = x (QUERIES, n) b (n, E W); their rows lie ldx, ldb and ldy apart
template <int E>
static inline void outer(const F* x, I ldx, const F* b, I ldb, I n, F* y, I ldy) {
  V a[QUERIES][E] = {};
  for (I j = 0; j < n; j++, b += ldb) {
    V v[E];
    for (int i = 0; i < E; i++) v[i] = load(b + i * W);
#pragma GCC unroll 8
    for (int r = 0; r < QUERIES; r++)
#pragma GCC unroll 8
      for (int i = 0; i < E; i++) a[r][i] += x[r * ldx + j] * v[i];
  }
  for (int r = 0; r < QUERIES; r++)
    for (int i = 0; i < E; i++) store(y + r * ldy + i * W, a[r][i]);
}
// n keys of d numbers, which lie `stride` and `apart` apart, in panes: the first numbers of PANE keys, then the next ones.
// What stands for keys behind the last is never used, but for what fills its vector: zeros.
static void turn(const F* keys, I stride, I apart, I n, I d, F* to) {
  for (I j = 0; j < n; j += W) {
    F* pane = to + j / PANE * PANE * d + j % PANE;
    const I some = n - j < W ? n - j : W;
    I i = 0;
#if defined(ACROSS)
    V block[W];
    for (; apart == 1 && i + W <= d; i += W) {
      for (I r = 0; r < W; r++) block[r] = r < some ? load(keys + (j + r) * stride + i) : V{};
      transpose(block);
      for (I r = 0; r < W; r++) store(pane + (i + r) * PANE, block[r]);
    }
#endif
    for (; i < d; i++)
      for (I r = 0; r < W; r++) pane[i * PANE + r] = r < some ? keys[(j + r) * stride + i * apart] : 0;
  }
}
// As `attention`; causal: query l sees the keys up to l.
static void attend(const T& q, const T& k, const T& v, const T& m, I masked, I causal, F scale, const T& o) {
  I L = q.n[3], n = k.n[3], d = q.n[4], e = v.n[4], group = q.n[2] / k.n[2];
  I panes = (n + PANE - 1) / PANE, ld = panes * PANE, wide = (e + W - 1) / W * W;
  bool as_is = wide == e && v.s[4] == 1;
  const I count = q.n[1] * k.n[2];
  in_parts(count, count * group * L * n * (d + e), [&](I part) {
    const I b = part / k.n[2];
    turned.resize(panes * d * PANE);
    if (!as_is) filled.assign(n * wide, 0);
    several.resize(QUERIES * (d + ld + wide));
    F *x = several.data(), *s = x + QUERIES * d, *y = s + QUERIES * ld;
    for (I h = part % k.n[2] * group, last = h + group; h < last; h++) {
      const F *keys = k.f() + b * k.s[1] + h / group * k.s[2], *values = v.f() + b * v.s[1] + h / group * v.s[2];
      const F *query = q.f() + b * q.s[1] + h * q.s[2], *wides = as_is ? values : filled.data();
      I apart = as_is ? v.s[3] : wide;
      if (h % group == 0) {
        turn(keys, k.s[3], k.s[4], n, d, turned.data());
        for (I j = 0; j < (as_is ? 0 : n); j++)
          for (I i = 0; i < e; i++) filled[j * wide + i] = values[j * v.s[3] + i * v.s[4]];
      }
      for (I l = 0; l < L; l += QUERIES) {
        I count = L - l < QUERIES ? L - l : QUERIES, end = causal && l + count < n ? l + count : n;
        for (I r = 0; r < count; r++)  // more rows are of queries before
          for (I i = 0; i < d; i++) x[r * d + i] = scale * query[(l + r) * q.s[3] + i * q.s[4]];
        for (I j = 0; j < end; j += PANE) {
          auto f = end - j <= W ? outer<1> : end - j <= 2 * W ? outer<2> : outer<PANES>;
          f(x, d, &turned[j * d], PANE, d, s + j, ld);
        }
        F z[QUERIES];
        for (I r = 0; r < count; r++) {
          F* row = s + r * ld;
          I seen = causal && l + r + 1 < n ? l + r + 1 : n;
          I at = b * m.s[1] + h * m.s[2] + (l + r) * m.s[3];
          mask_scores(row, m, at, masked, seen);
          I whole = (end + W - 1) / W * W;  // vectors of numbers that become 0
          for (I j = seen; j < whole; j++) row[j] = -INFINITY;
          z[r] = softmax_row(row, whole);
        }
        I t = 0;
        for (; t + PANE <= wide; t += PANE) outer<PANES>(s, ld, wides + t, apart, end, y + t, wide);
        for (; t + 2 * W <= wide; t += 2 * W) outer<2>(s, ld, wides + t, apart, end, y + t, wide);
        for (; t < wide; t += W) outer<1>(s, ld, wides + t, apart, end, y + t, wide);
        for (I r = 0; r < count; r++) {
          F* to = o.f() + b * o.s[1] + h * o.s[2] + (l + r) * o.s[3], c = z[r] > 0 ? 1 / z[r] : 0;
          if (o.s[4] == 1) for (I i = 0; i < e; i++) to[i] = c * y[r * wide + i];
          else for (I i = 0; i < e; i++) to[i * o.s[4]] = c * y[r * wide + i];
        }
      }
    }
  });
}
enum Reduction { SUM, MEAN, MAX, MIN, PROD, ANY };
static void reduce(I op, const T& o, const T& a, I R, I stride) {
  const I* s[2] = {o.s, a.s};
  bool fast = o.type == 0 && a.type == 0 && stride == 1 && (op == SUM || op == MEAN);
  rows<2>(o.n, s, [&](const I* at) {
    for (I m = 0; m < o.n[4]; m++) {
      I from = at[1] + m * a.s[4];
      double r;
      if (fast) {
        const F* x = a.f() + from;
        V t = {};
        I i = 0;
        for (; i + W <= R; i += W) t += load(x + i);
        F f = sum(t);
        for (; i < R; i++) f += x[i];
        r = f;
      } else {
        r = op == MAX ? -INFINITY : op == MIN ? INFINITY : op == PROD ? 1 : 0;
        for (I i = 0; i < R; i++) {
          double x = get(a.p, a.type, from + i * stride);
          switch (op) {
            case MAX: r = x > r ? x : r; break;
            case MIN: r = x < r ? x : r; break;
            case PROD: r *= x; break;
            case ANY: r = r != 0 || x != 0; break;
            default: r += x;
          }
        }
      }
      set(o.p, o.type, at[0] + m * o.s[4], op == MEAN ? r / R : r);
    }
  });
}
static void cumsum(const T& o, const T& a, I R, I so, I sa) {
  const I* s[2] = {o.s, a.s};
  rows<2>(o.n, s, [&](const I* at) {
    for (I m = 0; m < o.n[4]; m++) {
      double r = 0;
      for (I i = 0; i < R; i++) {
        r += get(a.p, a.type, at[1] + m * a.s[4] + i * sa);
        set(o.p, o.type, at[0] + m * o.s[4] + i * so, r);
      }
    }
  });
}
// Entries of x chosen by whole numbers in up to two dimensions. o (I, J, r, s, t) and x (r, s, t) but for what `index`
// adds: index k of (I, J) times its stride; below 0 it counts from the end.
static void pick(const T& o, const T& x, const T& i1, I stride1, I size1, const T& i2, I stride2, I size2, I write) {
  for (I i = 0; i < o.n[0]; i++)
    for (I j = 0; j < o.n[1]; j++) {
      I a = (I)get(i1.p, i1.type, i * i1.s[3] + j * i1.s[4]), b = 0;
      a += a < 0 ? size1 : 0;
      if (size2) { b = (I)get(i2.p, i2.type, i * i2.s[3] + j * i2.s[4]); b += b < 0 ? size2 : 0; }
      I from = a * stride1 + b * stride2, to = i * o.s[0] + j * o.s[1];
      bool floats = o.type == 0 && x.type == 0;
      for (I r = 0; r < o.n[2]; r++)
        for (I s = 0; s < o.n[3]; s++) {
          I p = from + r * x.s[2] + s * x.s[3], q = to + r * o.s[2] + s * o.s[3];
          if (floats && x.s[4] == 1 && o.s[4] == 1) {
            if (write) memcpy(x.f() + p, o.f() + q, 4 * o.n[4]);
            else memcpy(o.f() + q, x.f() + p, 4 * o.n[4]);
            continue;
          }
          for (I t = 0; t < o.n[4]; t++)
            if (write) set(x.p, x.type, p + t * x.s[4], get(o.p, o.type, q + t * o.s[4]));
            else set(o.p, o.type, q + t * o.s[4], get(x.p, x.type, p + t * x.s[4]));
        }
    }
}

typedef void (*Call)(I);

extern "C" {
// The names of unary and binary functions, in the order of their numbers.
const char* unary_names() {
  return
#define X(name, e) #name " "
      UNARY(X);
#undef X
}
const char* binary_names() {
  return
#define X(name, e) #name " "
      BINARY(X)
#undef X
      "logical_and logical_or remainder floor_divide";
}

// y (rows, choices, N): each row of x (rows, choices, K) times the transpose of the matrix that it chose, plus its bias.
// a: address of x, how far its rows and choices lie apart; the same of what was chosen; matrices, scales and offsets of
// bytes or 0, how many matrices, biases; y, rows, choices, N, K.
void grouped(const I* a) {
  static thread_local std::vector<I> order, ends;
  static thread_local std::vector<F> seen, made;
  const F* x = (F*)a[0];
  const I* chosen = (I*)a[3];
  F* y = (F*)a[11];
  I count = a[9], choices = a[13], all = a[12] * choices, N = a[14], K = a[15];
  I padded = (K + 3) / 4 * 4, groups = (padded + GROUP - 1) / GROUP, whole = (N + PANEL - 1) / PANEL * PANEL;
  auto choice = [&](I place) { return chosen[place / choices * a[4] + place % choices * a[5]]; };
  auto row = [&](I place) { return x + place / choices * a[1] + place % choices * a[2]; };
  auto product = [&](I e, const F* from, F* to, I M) {
    const F* b = a[10] ? (F*)a[10] + e * N : 0;
    Bytes bytes{(int8_t*)a[6] + e * whole * padded, (F*)a[7] + e * whole, (int32_t*)a[8] + e * groups * whole};
    if (a[7]) linear(from, K, bytes, b, to, N, M, N, K);
    else linear(from, K, (F*)a[6] + e * N * K, b, to, N, M, N, K);
  };
  ends.assign(count + 1, 0);
  order.resize(all);
  for (I place = 0; place < all; place++) ends[choice(place) + 1]++;
  for (I e = 0; e < count; e++) ends[e + 1] += ends[e];
  for (I place = 0; place < all; place++) order[ends[choice(place)]++] = place;
  for (I e = 0, from = 0; e < count; from = ends[e++]) {
    const I M = ends[e] - from, *places = order.data() + from;
    if (M == 1) product(e, row(*places), y + *places * N, 1);
    if (M < 2) continue;
    seen.resize(M * K);
    made.resize(M * N);
    for (I m = 0; m < M; m++) memcpy(&seen[m * K], row(places[m]), 4 * K);
    product(e, seen.data(), made.data(), M);
    for (I m = 0; m < M; m++) memcpy(y + places[m] * N, &made[m * N], 4 * N);
  }
}

// y (M, N) = x (M, K) times the transpose of a matrix of bytes, plus b
void multiply(
    const F* x, const int8_t* panels, const F* scales, const int32_t* offsets, const F* b, F* y, I M, I N, I K) {
  linear(x, K, Bytes{panels, scales, offsets}, b, y, N, M, N, K);
}

// How many threads make what this thread asks for from here on, and what they are had from.
void use_threads(I count, Parallel from) { threads = from ? count : 1, parallel = from; }

// y = f(x) for n numbers, f by its number
void apply(I op, const F* x, F* y, I n) {
  const I size[5] = {1, 1, 1, 1, n}, apart[5] = {0, 0, 0, 0, 1};
  I a[TENSOR] = {(I)y, 0}, b[TENSOR] = {(I)x, 0};
  memcpy(a + 2, size, 40), memcpy(a + 7, apart, 40), memcpy(b + 2, size, 40), memcpy(b + 7, apart, 40);
  unary(op, T(a), T(b));
}

// y = x of R rows of n numbers, normalized, times w and plus b where they are not 0
void normalize(const F* x, const F* w, const F* b, F* y, I R, I n, I rms, double eps) {
  norm(x, w, b, y, R, n, rms, (F)eps);
}

// n rows of a cache, by their numbers `of`, to the places `to`; each is of so many blocks, `whole` bytes apart, of which
// the first `part` are copied.
void move(char* cache, I blocks, I whole, I part, const I* to, const I* of, I n) {
  for (I i = 0; i < n; i++) {
    char *y = cache + to[i] * blocks * whole, *x = cache + of[i] * blocks * whole;
    for (I b = 0; b < blocks; b++) memcpy(y + b * whole, x + b * whole, part);
  }
}

// Of R rows x of n numbers the k largest, in order: their places, and the numbers of y there less the logarithm of the
// sum of e^y; rows lie ldx and ldy apart, and are those of the numbers `of`, else the first. -inf where x is.
void best(const F* x, I ldx, const F* y, I ldy, const I* of, I R, I n, I k, F* logs, I* places) {
  in_parts(R, R * n * 8, [&](I r) {
    const I from = of ? of[r] : r;
    const F* row = y + from * ldy;
    F* log = logs + r * k;
    I* place = places + r * k;
    largest(x + from * ldx, n, k, log, place);
    const bool known = x == y && log[0] > -INFINITY;
    F whole = log_sum(row, n, known ? log[0] : highest(row, n));
    for (I j = 0; j < k; j++)
      if (log[j] > -INFINITY || whole != whole) log[j] = row[place[j]] - whole;
  });
}

// The tensors q, k, v, mask and o of attention, the kind of its mask, whether it is causal, its scale.
void attend_to(const I* a, I masked, I causal, double scale) {
  const T q(a), k(a + TENSOR), v(a + 2 * TENSOR), mask(a + 3 * TENSOR), out(a + 4 * TENSOR);
  if (q.n[3] <= QUERIES / 2 && !causal)  // a block of queries would be mostly empty
    attention(q, k, v, mask, masked, (F)scale, out);
  else
    attend(q, k, v, mask, masked, causal, (F)scale, out);
}

// Runs a program: its words now are base + slope * past.
void run(const I* base, const I* slope, I* now, I count, I past, Call call) {
  for (I i = 0; i < count; i++) now[i] = base[i] + slope[i] * past;
  for (const I* q = now;; q += q[1]) {
    const I* a = q + 2;
    auto tensor = [&](int n) { return T(a + n * TENSOR); };
    auto real = [](I bits) { double d; memcpy(&d, &bits, 8); return d; };
    switch (q[0]) {
      case 0: return;
      case 1: unary(a[2 * TENSOR], tensor(0), tensor(1)); break;
      case 2: binary(a[3 * TENSOR], tensor(0), tensor(1), tensor(2)); break;
      case 3: where(tensor(0), tensor(1), tensor(2), tensor(3)); break;
      case 4: {
        Bytes bytes{(int8_t*)a[2], (F*)a[3], (int32_t*)a[4]};
        if (bytes.scales) linear((F*)a[0], a[1], bytes, (F*)a[5], (F*)a[6], a[7], a[8], a[9], a[10]);
        else linear((F*)a[0], a[1], (F*)a[2], (F*)a[5], (F*)a[6], a[7], a[8], a[9], a[10]);
        break;
      }
      case 5: matmul(tensor(0), tensor(1), tensor(2), a[3 * TENSOR]); break;
      case 6: norm((F*)a[0], (F*)a[1], (F*)a[2], (F*)a[3], a[4], a[5], a[6], (F)real(a[7])); break;
      case 7: softmax((F*)a[0], (F*)a[1], a[2], a[3], a[4]); break;
      case 8: attend_to(a, a[5 * TENSOR], a[5 * TENSOR + 1], real(a[5 * TENSOR + 2])); break;
      case 9: reduce(a[2 * TENSOR], tensor(0), tensor(1), a[2 * TENSOR + 1], a[2 * TENSOR + 2]); break;
      case 10: cumsum(tensor(0), tensor(1), a[2 * TENSOR], a[2 * TENSOR + 1], a[2 * TENSOR + 2]); break;
      case 11: {
        const I* e = a + 4 * TENSOR;
        pick(tensor(0), tensor(1), tensor(2), e[0], e[1], tensor(3), e[2], e[3], e[4]);
        break;
      }
      case 12: iota(tensor(0), a[TENSOR], a[TENSOR + 1]); break;
      case 13: addcmul(tensor(0), tensor(1), tensor(2), tensor(3), (F)real(a[4 * TENSOR])); break;
      case 14: call(a[0]); break;
      case 15: grouped(a); break;
      case 16: topk(tensor(0), tensor(1), tensor(2), a[3 * TENSOR]); break;
    }
  }
}
}
