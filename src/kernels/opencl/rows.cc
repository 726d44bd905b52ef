#include "kernels/opencl/rows.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/opencl/kernel_texts.h"
#include "kernels/opencl/pool.h"
#include "kernels/opencl/products.h"

namespace longformer::kernels::opencl {
namespace {

/// Scores of global rows that are in memory at once.
constexpr Index kMostScores = Index{1} << 24;

std::int32_t whole_number(Index value) { return static_cast<std::int32_t>(value); }
std::int32_t flag(bool value) { return value ? 1 : 0; }
std::int32_t flag(const Tensor& tensor) { return tensor.empty() ? 0 : 1; }

/// A tensor that a kernel is given in place of one that is not there.
const Tensor& given(const Tensor& tensor, const Tensor& other) {
  return tensor.empty() ? other : tensor;
}

/// Work items that share a row.
std::size_t lanes_of(const DeviceFacts& facts) {
  std::size_t lanes = facts.is_gpu ? 64 : 16;
  while (lanes > facts.work_group) lanes /= 2;
  return lanes;
}

/// The kernels for a device, with an activation or without.
struct Kernels {
  explicit Kernels(const Tensor& on, std::optional<Activation> activation = std::nullopt)
      : device(device_of(on)),
        lanes(lanes_of(device.facts())),
        program(device.program(kRowsSource,
                               fmt::format("-DLANES={} -DACTIVATION={}", lanes,
                                           activation ? static_cast<int>(*activation) : -1))) {}

  /// A work item for each of so many numbers.
  template <typename... Values>
  void run_each(const char* name, Index items, const Values&... values) {
    run(device, program, name, device.groups_for(items), values...);
  }
  /// A group for each of so many rows.
  template <typename... Values>
  void run_rows(const char* name, Index rows, const Values&... values) {
    run(device, program, name, {static_cast<std::size_t>(rows), lanes}, values...);
  }
  Tensor tensor(const Shape& shape) { return device.pool().tensor(shape); }

  Device& device;
  std::size_t lanes;
  Program& program;
};

}  // namespace

Tensor embed(const EmbeddedRows& rows) {
  Kernels kernels(rows.words);
  const Index width = rows.words.columns();
  Tensor sums = kernels.tensor({rows.word_rows.size(), width});
  kernels.run_each("embed", sums.size(), rows.words, given(rows.types, rows.words),
                   given(rows.positions, rows.words), rows.word_rows,
                   given(rows.type_rows, rows.word_rows), given(rows.position_rows, rows.word_rows),
                   sums, sums.size(), whole_number(width), flag(rows.types), flag(rows.positions),
                   rows.scale);
  return sums;
}

void finish(Tensor& x, const Finish& with) {
  if (with.bias.empty() && with.residual.empty() && !with.activation) return;
  Kernels kernels(x, with.activation);
  const Tensor residual = with.residual.empty() ? Tensor() : whole(with.residual);
  kernels.run_each("finish", x.size(), x, given(with.bias, x), given(residual, x), x, x.size(),
                   whole_number(x.columns()), flag(with.bias), flag(residual));
}

Tensor normalise(const Tensor& given_x, const Tensor& bias, const Tensor& given_residual,
                 const Norm& norm) {
  const Tensor x = whole(given_x);
  const Tensor residual = given_residual.empty() ? Tensor() : whole(given_residual);
  Kernels kernels(x);
  Tensor y = kernels.tensor(x.shape());
  const Index columns = norm.weight.size();
  kernels.run_rows("normalise", x.size() / columns, x, given(bias, x), given(residual, x),
                   norm.weight, given(norm.shift, norm.weight), y, whole_number(columns),
                   flag(bias), flag(residual), flag(norm.shift), flag(norm.centres), norm.offset,
                   norm.epsilon);
  return y;
}

Tensor split_heads(const Tensor& x, const Tensor& bias, const HeadPart& part) {
  Kernels kernels(x);
  Tensor heads = kernels.tensor({part.heads, x.rows(), part.head_size});
  kernels.run_each("split_heads", heads.size(), x, given(bias, x), heads, heads.size(),
                   whole_number(x.rows()), whole_number(part.head_size), whole_number(x.columns()),
                   whole_number(part.first), flag(bias));
  return heads;
}

Tensor take_heads(const Tensor& x, const Tensor& chosen) {
  Kernels kernels(x);
  const Index size = x.dimension(1) * x.dimension(2);
  Tensor y = kernels.tensor({chosen.size(), x.dimension(1), x.dimension(2)});
  kernels.run_each("take_heads", y.size(), x, chosen, y, y.size(), size);
  return y;
}

Tensor select_rows(const Tensor& given_x, const Tensor& chosen) {
  const Tensor x = whole(given_x);
  Kernels kernels(x);
  Tensor y = kernels.tensor({chosen.size(), x.columns()});
  kernels.run_each("select_rows", y.size(), x, chosen, y, y.size(), whole_number(x.columns()));
  return y;
}

Tensor gate(const Tensor& x, const GateOf& gate) {
  Kernels kernels(x, gate.activation);
  Tensor y = kernels.tensor({x.rows(), x.columns() / 2});
  kernels.run_each("gate", y.size(), x, given(gate.bias, x), y, y.size(), whole_number(y.columns()),
                   flag(gate.bias), flag(gate.activates_second));
  return y;
}

Tensor rotate(const Tensor& x, const RotationOf& rotation) {
  Kernels kernels(x);
  Tensor y = kernels.tensor(x.shape());
  const Index pairs = x.size() / 2;
  kernels.run_each("turn_heads", pairs, x, rotation.table, rotation.places, y, pairs,
                   whole_number(x.dimension(1)), whole_number(x.dimension(2)),
                   flag(rotation.pairs_neighbours));
  return y;
}

Tensor fold_rows(const Tensor& given_x, const Tensor& ranges, Fold how) {
  const Tensor x = whole(given_x);
  Kernels kernels(x);
  Tensor y = kernels.tensor({ranges.size() / 2, x.columns()});
  kernels.run_each("fold_rows", y.size(), x, ranges, y, y.size(), whole_number(x.columns()),
                   static_cast<std::int32_t>(how));
  return y;
}

Tensor unit_rows(const Tensor& x) {
  Kernels kernels(x);
  Tensor y = kernels.tensor(x.shape());
  kernels.run_rows("unit_rows", x.rows(), x, y, whole_number(x.columns()));
  return y;
}

Tensor lower_rows(const Tensor& x, const Tensor& marks, float amount) {
  Kernels kernels(x);
  Tensor y = kernels.tensor(x.shape());
  kernels.run_each("lower_rows", y.size(), x, given(marks, x), y, y.size(),
                   whole_number(x.columns()), flag(marks), amount);
  return y;
}

SoftmaxPart merged(const SoftmaxPart& a, const SoftmaxPart& b) {
  Kernels kernels(a.out);
  const Index heads = a.logsumexp.dimension(0), n = a.logsumexp.dimension(1);
  SoftmaxPart all = {kernels.tensor(a.out.shape()), kernels.tensor(a.logsumexp.shape())};
  kernels.run_each("merge", all.out.size(), a.out, a.logsumexp, b.out, b.logsumexp, all.out,
                   all.logsumexp, all.out.size(), whole_number(n), whole_number(heads),
                   whole_number(all.out.columns() / heads));
  return all;
}

void attend_globally(const Tensor& x, const GlobalWeights& weights, const GlobalPart& part,
                     Tensor& attended) {
  Kernels kernels(x);
  const Index width = x.columns(), d = part.head_size, heads = width / d;
  const Index n = part.key_count;
  const Tensor keys = whole(x.slice_rows(part.key_begin, n));
  const Matrix values = matrix_of_rows(keys);
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  const Index step = std::max<Index>(kMostScores / (heads * n), 1);
  for (Index begin = 0; begin < part.count; begin += step) {
    const Index g = std::min(step, part.count - begin);
    const std::int32_t first = whole_number(part.first + begin);
    Tensor queries = kernels.tensor({g, width});
    kernels.run_rows("project_rows", g * width, x, part.rows, weights.query, weights.query_bias,
                     queries, whole_number(width), first);
    Tensor spread = kernels.tensor({heads * g, width});
    kernels.run_each("spread_queries", spread.size(), queries, weights.key, spread, spread.size(),
                     whole_number(g), whole_number(d), whole_number(width), scale);
    const Tensor scores = multiply(keys, matrix_of_weights(spread));
    Tensor probabilities = kernels.tensor({heads * g, n});
    kernels.run_rows("softmax_columns", heads * g, scores, given(part.mask, scores), probabilities,
                     whole_number(n), whole_number(heads * g), flag(part.mask),
                     whole_number(part.key_begin));
    const Tensor mixtures = multiply(probabilities, values);
    kernels.run_rows("project_mixtures", g * width, mixtures, part.rows, weights.value,
                     weights.value_bias, attended, whole_number(g), whole_number(d),
                     whole_number(width), first);
  }
}

}  // namespace longformer::kernels::opencl
