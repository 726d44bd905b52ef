#include "kernels/packed_linear.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/cpu.h"
#include "core/fork.h"
#include "core/threads.h"
#include "kernels/elementwise.h"
#include "kernels/gemm_onednn.h"
#include "kernels/int8_rows.h"

namespace longformer::kernels {
namespace {

using dnnl::memory;
using onednn::computes_in_bf16;
using onednn::cpu_engine;
using onednn::data_type;
using onednn::Matmul;
using onednn::MatmulPlan;
using onednn::thread_scratch;

/// oneDNN 3 calls the sizes of a matrix otherwise.
Index columns_of(const auto& matrix) {
  if constexpr (requires { matrix.get_dims(); }) {
    return matrix.get_dims()[1];
  } else {
    return matrix.dims()[1];
  }
}

dnnl::algorithm algorithm(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return dnnl::algorithm::eltwise_gelu_erf;
    case Activation::gelu_tanh:
      return dnnl::algorithm::eltwise_gelu_tanh;
    case Activation::relu:
      return dnnl::algorithm::eltwise_relu;
    case Activation::silu:
    case Activation::quick_gelu:
      return dnnl::algorithm::eltwise_swish;
    case Activation::tanh:
      return dnnl::algorithm::eltwise_tanh;
    case Activation::mish:
      return dnnl::algorithm::eltwise_mish;
  }
  return dnnl::algorithm::eltwise_gelu_erf;
}

/// oneDNN's ReLU turns a NaN into 0; Mish is rare and stays ours. And beside AMX its GELU takes as
/// long as the product, where numbers that are rounded to bf16 first, as a training does, can be
/// looked up.
bool is_fused(Activation activation, DType output) {
  if (activation == Activation::relu || activation == Activation::mish) return false;
  return output != DType::bf16 || cpu_isa() < CpuIsa::amx_bf16;
}

/// The factor in x·sigmoid(factor·x).
float swish_factor(Activation activation) {
  if (activation == Activation::quick_gelu) return 1.702f;
  return activation == Activation::silu ? 1.0f : 0.0f;
}

void append_activation(dnnl::post_ops& post, Activation activation) {
  const float alpha = swish_factor(activation);
#if DNNL_VERSION_MAJOR >= 3
  post.append_eltwise(algorithm(activation), alpha, 0.0f);
#else
  post.append_eltwise(1.0f, algorithm(activation), alpha, 0.0f);
#endif
}

/// The matrices below each other in fp32; the matrix itself when there is only one in fp32.
Tensor stacked(std::span<const Tensor> parts) {
  if (parts.size() == 1 && parts[0].dtype() == DType::f32) return parts[0];
  Shape shape = parts[0].shape();
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.rows();
  Tensor all(shape, DType::f32);
  Index row = 0;
  for (const Tensor& part : parts) {
    Tensor target = all.slice_rows(row, part.rows());
    part.copy_to({target.data<float>(), static_cast<std::size_t>(target.size())});
    row += part.rows();
  }
  return all;
}

/// Whether threads that oneDNN shares a product of few rows out among take columns. Below AVX-512
/// they take rows, and what a row becomes would depend on the others. So they do in bf16 where
/// AVX-512 has no instructions for it, from version 3 on.
bool spreads_by_columns(DType compute) {
  const CpuIsa isa = cpu_isa();
  return isa >= CpuIsa::avx512 && (isa != CpuIsa::avx512 || compute != DType::bf16);
}

}  // namespace

class PackedLinear::Kernel {
 public:
  /// Some columns of y, for one thread.
  struct Part {
    Matmul product;
    memory::desc target, scratchpad;
    memory weights, bias;
    Index first_column = 0;
  };

  /// Empty where one thread takes all columns, or oneDNN shares them out.
  std::vector<Part> parts;
  Matmul first;
  /// Adds to what the slabs of x before have given; only with more than one.
  Matmul next;
  memory::desc source, target;
  memory::desc scratchpad;
  /// Rows that are asked for, and rows that are computed for their sake.
  Index rows = 0, computed_rows = 0;
  int threads = 1;
  std::string implementation;
  /// Dtype of the product, and of y, which has additions too.
  DType output = DType::f32, result = DType::f32;
  /// Both products of each addition.
  std::vector<std::array<const Kernel*, 2>> additions;
};

struct PackedLinear::Packed {
  /// A and scale·B of what is added from a column on.
  struct Addition {
    Index column;
    PackedLinear inner, outer;
  };

  Index in = 0, out = 0;
  /// Dtype that oneDNN multiplies.
  DType compute = DType::f32;
  PackedLinearOptions options;
  /// The weights of the slabs, one after the other in the storage.
  std::vector<memory> weights, biases;
  Tensor storage;
  Tensor bias_storage;
  /// Scales of the rows of W where these are 8-bit whole numbers, and the sums of those.
  Tensor scales, number_sums;
  std::vector<Addition> additions;
  std::map<std::tuple<Index, DType, int>, Kernel> kernels;
  std::mutex mutex;

  Index slab_in() const { return in / options.slabs.in; }
  Index slab_out() const { return out / options.slabs.out; }
  MatmulPlan describe(Index rows, DType output, const memory::desc& weights_desc, int threads,
                      bool add = false) const;
  std::vector<Kernel::Part> share_columns(Index rows, DType output, int threads) const;
  /// Whether oneDNN applies the activation; additions come before it.
  bool fuses_activation(DType written) const {
    return options.activation && additions.empty() && compute != DType::i8 &&
           is_fused(*options.activation, written);
  }
  void prepare();
  void point_to_biases();
  void pack(std::span<const Tensor> parts);
  void add(const LowRankProduct& addition);
  void pack_int8(const Tensor& source);
  /// Dtype of what oneDNN writes.
  DType written(DType output) const {
    if (compute == DType::i8) return DType::i32;
    return compute == DType::f32 ? DType::f32 : output;
  }
  /// Applies the activation to a slab of y where oneDNN has not.
  void activate_rest(const Kernel& kernel, void* y) const;
};

/// Describes the product of one slab, or of some of its columns, with its weights; with `add` it is
/// added to y.
MatmulPlan PackedLinear::Packed::describe(Index rows, DType output,
                                          const memory::desc& weights_desc, int threads,
                                          bool add) const {
  const auto plain = memory::format_tag::ab;
  // Rows of x have a zero that moves, rows of W have none.
  const DType factor = compute == DType::i8 ? DType::u8 : compute;
  const memory::desc source({rows, slab_in()}, data_type(factor), plain);
  const Index columns = columns_of(weights_desc);
  const memory::desc target({rows, columns}, data_type(output), memory::dims{slab_out(), 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
  if (add) post.append_sum(1.0f);
  if (fuses_activation(output)) append_activation(post, *options.activation);
  attributes.set_post_ops(post);
  if (bias_storage.empty() || add || compute == DType::i8) {
    return onednn::plan_matmul({source, weights_desc, memory::desc(), target}, attributes, threads);
  }
  const memory::desc bias({1, columns}, memory::data_type::f32, plain);
  return onednn::plan_matmul({source, weights_desc, bias, target}, attributes, threads);
}

std::vector<PackedLinear::Kernel::Part> PackedLinear::Packed::share_columns(Index rows,
                                                                            DType output,
                                                                            int threads) const {
  constexpr Index kUnit = 48;  // whole groups of 16 and of 24, so that all columns sum alike
  const Index width = (out + threads * kUnit - 1) / (threads * kUnit) * kUnit;
  std::vector<Kernel::Part> parts;
  for (Index column = 0; column < out; column += width) {
    const Index columns = std::min(width, out - column);
    const memory::desc own({in, columns}, data_type(compute), memory::format_tag::ba);
    const MatmulPlan plan = describe(rows, output, own, 1);
    const auto& description = plan.description;
    Kernel::Part part;
    part.product = Matmul(plan);
    part.target = description.dst_desc();
    part.scratchpad = description.scratchpad_desc();
    const auto skipped = static_cast<std::size_t>(column * in) * element_size(compute);
    part.weights =
        memory(own, cpu_engine(), static_cast<std::byte*>(weights[0].get_data_handle()) + skipped);
    part.first_column = column;
    if (!biases.empty()) {
      part.bias = memory(description.bias_desc(), cpu_engine(),
                         static_cast<float*>(biases[0].get_data_handle()) + column);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

void PackedLinear::Packed::activate_rest(const Kernel& kernel, void* y) const {
  const DType dtype = written(kernel.output);
  if (compute == DType::i8 || !options.activation || !additions.empty() || fuses_activation(dtype))
    return;
  activate(*options.activation, y, y, kernel.computed_rows * slab_out(), dtype);
}

/// Brings each slab of the weights [out, in] into oneDNN's own layout.
void PackedLinear::Packed::pack(std::span<const Tensor> parts) {
  const Tensor source = stacked(parts);
  if (compute == DType::i8) return pack_int8(source);
  // The stored numbers are those of bf16 even where oneDNN computes in fp32.
  const Tensor weight = options.dtype == compute ? source : source.to(options.dtype).to(DType::f32);
  for (std::size_t slab = 0; slab < weights.size(); ++slab) {
    const auto number = static_cast<Index>(slab);
    const Index first = options.slabs.in > 1 ? number * slab_in() : number * slab_out() * in;
    memory plain({{slab_in(), slab_out()}, memory::data_type::f32, memory::dims{1, in}},
                 cpu_engine(), const_cast<float*>(weight.data<float>()) + first);
    onednn::reorder(plain, weights[slab]);
  }
}

void PackedLinear::Packed::pack_int8(const Tensor& source) {
  Tensor numbers({out, in}, DType::i8);
  scales = Tensor({out}, DType::f32);
  number_sums = Tensor({out}, DType::i32);
  auto* bytes = static_cast<std::int8_t*>(numbers.raw());
  quantize_weights(source.data<float>(), out, in,
                   {.numbers = bytes, .scales = scales.data<float>()});
  auto* sums = static_cast<std::int32_t*>(number_sums.raw());
  for (Index row = 0; row < out; ++row) {
    sums[row] = std::accumulate(bytes + row * in, bytes + (row + 1) * in, 0);
  }
  memory plain({{in, out}, memory::data_type::s8, memory::dims{1, in}}, cpu_engine(), bytes);
  onednn::reorder(plain, weights[0]);
}

/// Memory for the slabs in oneDNN's own layout. Below AVX-512 that would be [in, out], which takes
/// twice the time of [out, in] (82 against 161 GFLOP/s on Zen 3, 252 rows of 768 to 3,072).
void PackedLinear::Packed::prepare() {
  const memory::desc wanted({slab_in(), slab_out()}, data_type(compute),
                            spreads_by_columns(compute) && !options.keeps_layout
                                ? memory::format_tag::any
                                : memory::format_tag::ba);
  const memory::desc packed = describe(kRowBlock, compute, wanted, 1).description.weights_desc();
  const auto bytes = static_cast<Index>((packed.get_size() + 63) / 64 * 64);
  const Index slabs = options.slabs.in * options.slabs.out;
  storage = Tensor({slabs * bytes}, DType::u8);
  for (Index slab = 0; slab < slabs; ++slab) {
    weights.emplace_back(packed, cpu_engine(), storage.data<std::uint8_t>() + slab * bytes);
  }
}

void PackedLinear::Packed::point_to_biases() {
  const bool has_none = bias_storage.empty() || compute == DType::i8;
  const auto slabs = has_none ? 0 : std::ssize(weights);
  for (Index slab = 0; slab < slabs; ++slab) {
    const Index own = options.slabs.in > 1 ? 0 : slab * slab_out();
    biases.emplace_back(
        memory::desc({1, slab_out()}, memory::data_type::f32, memory::format_tag::ab), cpu_engine(),
        bias_storage.data<float>() + own);
  }
}

/// Both products are written in fp32: of a few columns, they cost little.
void PackedLinear::Packed::add(const LowRankProduct& addition) {
  assert(addition.a.columns() == in && addition.column + addition.b.rows() <= out);
  assert(options.slabs.out == 1 || addition.b.rows() == out);
  Tensor scaled = addition.b.copied();
  kernels::scale(addition.scale, scaled.raw(), scaled.size(), DType::f32);
  PackedLinear inner(
      std::span(&addition.a, 1), {},
      {.dtype = options.dtype, .slabs = {.in = options.slabs.in}, .keeps_layout = true});
  PackedLinear outer(std::span(&scaled, 1), {},
                     {.slabs = {.out = options.slabs.out}, .keeps_layout = true});
  additions.push_back({addition.column, std::move(inner), std::move(outer)});
}

Index row_unit(bool all_threads) {
  if (cpu_isa() >= CpuIsa::avx512) return 16;
  return all_threads ? 1 : 12;
}

bool packs_for_training(Index rows, Index in, DType dtype) {
  constexpr Index kLeastRows = 1024;
  return dtype == DType::bf16 && cpu_isa() >= CpuIsa::amx_bf16 && rows >= kLeastRows &&
         feed_forward_slabs(in, dtype) == 1;
}

Index feed_forward_slabs(Index intermediate, DType dtype) {
  constexpr Index kWidest = 1024, kUnit = 64;
  if (dtype != DType::bf16 || cpu_isa() < CpuIsa::amx_bf16) return 1;
  for (Index slabs = (intermediate + kWidest - 1) / kWidest; slabs <= 8; ++slabs) {
    if (intermediate % (slabs * kUnit) == 0) return slabs;
  }
  return 1;
}

PackedLinear::PackedLinear(std::span<const Tensor> weights, std::span<const Tensor> biases,
                           const PackedLinearOptions& options)
    : packed_(std::make_unique<Packed>()) {
  assert(!weights.empty() && (biases.empty() || biases.size() == weights.size()));
  assert(options.slabs.in == 1 || (options.slabs.out == 1 && !options.activation));
  Packed& p = *packed_;
  p.in = weights[0].columns();
  for (const Tensor& weight : weights) p.out += weight.rows();
  assert(p.in % options.slabs.in == 0 && p.out % options.slabs.out == 0);
  p.options = options;
  p.compute = computes_in_bf16() ? options.dtype : DType::f32;
  if (options.int8) {
    assert(has_int8_products() && options.slabs.in * options.slabs.out == 1);
    p.compute = DType::i8;
  }
  if (!biases.empty()) p.bias_storage = stacked(biases);
  p.prepare();
  p.point_to_biases();
  p.pack(weights);
}

PackedLinear::PackedLinear(const PackedLinear& base, std::span<const Tensor> biases,
                           std::span<const LowRankProduct> additions)
    : packed_(std::make_unique<Packed>()) {
  const Packed& from = *base.packed_;
  assert(from.additions.empty());
  Packed& p = *packed_;
  p.in = from.in;
  p.out = from.out;
  p.compute = from.compute;
  p.options = from.options;
  p.weights = from.weights;
  p.storage = from.storage;
  p.scales = from.scales;
  p.number_sums = from.number_sums;
  p.bias_storage = biases.empty() ? from.bias_storage : stacked(biases);
  p.point_to_biases();
  for (const LowRankProduct& addition : additions) p.add(addition);
}

PackedLinear::PackedLinear(PackedLinear&&) noexcept = default;
PackedLinear& PackedLinear::operator=(PackedLinear&&) noexcept = default;
PackedLinear::~PackedLinear() = default;

Index PackedLinear::in_features() const { return packed_->in; }
Index PackedLinear::out_features() const { return packed_->out; }
DType PackedLinear::dtype() const { return packed_->options.dtype; }

void PackedLinear::repack(std::span<const Tensor> weights) { packed_->pack(weights); }

namespace {

/// oneDNN sums one to three rows behind groups of six, and a single row, in an order of their own
/// below AVX-512; four are summed like six. A single row in bf16 has such an order where AVX-512
/// has no instructions for bf16. Where it has no code of its own for the processor, all rows behind
/// groups of six have one.
Index computed_rows(Index rows, DType compute) {
  constexpr Index kGroup = 6;
#ifdef __x86_64__
  constexpr Index kAlike = 4;
#else
  constexpr Index kAlike = kGroup;
#endif
  const CpuIsa isa = cpu_isa();
  if (isa >= CpuIsa::avx512) {
    return isa == CpuIsa::avx512 && compute == DType::bf16 ? std::max<Index>(rows, 2) : rows;
  }
  const Index rest = rows % kGroup;
  return rest > 0 && rest < kAlike ? rows + kAlike - rest : rows;
}

}  // namespace

const PackedLinear::Kernel& PackedLinear::kernel(Index rows, DType result, bool all_threads) const {
  Packed& p = *packed_;
  assert(p.options.slabs.in == 1 || result == DType::f32);
  const ForkSafeLock lock(p.mutex);
  const int threads = all_threads ? free_threads() : 1;
  const auto key = std::make_tuple(rows, result, threads);
  if (const auto found = p.kernels.find(key); found != p.kernels.end()) return found->second;
  // Additions go to sums that are not rounded yet.
  const DType output = p.additions.empty() ? result : DType::f32;
  const int sharing = spreads_by_columns(p.compute) ? threads : 1;
  const DType computed_output = p.written(output);
  const memory::desc weights = p.weights[0].get_desc();
  Kernel kernel;
  kernel.rows = rows;
  kernel.threads = threads;
  // Slabs, which are for AMX, lie behind each other without padding.
  const bool is_whole = p.options.slabs.in * p.options.slabs.out == 1;
  kernel.computed_rows = is_whole ? computed_rows(rows, p.compute) : rows;
  const MatmulPlan plan = p.describe(kernel.computed_rows, computed_output, weights, sharing);
  const auto& description = plan.description;
  kernel.first = Matmul(plan);
  kernel.implementation = description.impl_info_str();
  kernel.source = description.src_desc();
  kernel.target = description.dst_desc();
  kernel.scratchpad = description.scratchpad_desc();
  if (p.options.slabs.in > 1) {
    const MatmulPlan adding =
        p.describe(kernel.computed_rows, computed_output, weights, sharing, true);
    kernel.next = Matmul(adding);
    const memory::desc scratchpad = adding.description.scratchpad_desc();
    if (scratchpad.get_size() > kernel.scratchpad.get_size()) kernel.scratchpad = scratchpad;
  }
  if (threads > 1 && !spreads_by_columns(p.compute)) {
    kernel.parts = p.share_columns(kernel.computed_rows, computed_output, threads);
  }
  // Padded rows and shared columns are those of one slab.
  assert(is_whole || kernel.parts.empty());
  kernel.output = output;
  kernel.result = result;
  for (const Packed::Addition& addition : p.additions) {
    // So small that threads would take longer to share them.
    kernel.additions.push_back(
        {&addition.inner.kernel(rows, DType::f32), &addition.outer.kernel(rows, DType::f32)});
  }
  return p.kernels.emplace(key, std::move(kernel)).first->second;
}

void PackedLinear::run(const Kernel& kernel, const void* x, void* y) const {
  if (kernel.additions.empty()) return run_product(kernel, x, y);
  const Packed& p = *packed_;
  thread_local std::vector<float> wide, inner, outer;
  const Index count = kernel.rows * p.out;
  wide.resize(kernel.result == DType::f32 ? 0 : at(count));
  float* sums = kernel.result == DType::f32 ? static_cast<float*>(y) : wide.data();
  run_product(kernel, x, sums);
  for (std::size_t i = 0; i < p.additions.size(); ++i) {
    const Packed::Addition& addition = p.additions[i];
    const Index width = addition.outer.out_features();
    inner.resize(at(kernel.rows * addition.inner.out_features()));
    outer.resize(at(kernel.rows * width));
    addition.inner.run(*kernel.additions[i][0], x, inner.data());
    addition.outer.run(*kernel.additions[i][1], inner.data(), outer.data());
    // All columns at once, in slabs too; else the columns of one row after the other.
    const Index pieces = width == p.out ? 1 : kernel.rows;
    for (Index piece = 0; piece < pieces; ++piece) {
      add(outer.data() + piece * width, sums + piece * p.out + addition.column,
          kernel.rows * width / pieces, DType::f32);
    }
  }
  if (p.options.activation) activate(*p.options.activation, sums, sums, count, DType::f32);
  if (sums != y) narrow_all(sums, static_cast<BFloat16*>(y), count);
}

void PackedLinear::run_product(const Kernel& kernel, const void* x, void* y) const {
  if (kernel.computed_rows == kernel.rows) return execute(kernel, x, y);
  const Packed& p = *packed_;
  thread_local std::vector<std::byte> padded_x, padded_y;
  const auto row_bytes_x = static_cast<std::size_t>(p.in) * element_size(p.options.dtype);
  const auto row_bytes_y = static_cast<std::size_t>(p.out) * element_size(kernel.output);
  const auto rows = static_cast<std::size_t>(kernel.rows);
  const auto computed = static_cast<std::size_t>(kernel.computed_rows);
  padded_x.assign(computed * row_bytes_x, std::byte{0});
  padded_y.resize(computed * row_bytes_y);
  std::memcpy(padded_x.data(), x, rows * row_bytes_x);
  execute(kernel, padded_x.data(), padded_y.data());
  std::memcpy(y, padded_y.data(), rows * row_bytes_y);
}

void PackedLinear::multiply(const Kernel& kernel, const void* x, void* y) const {
  const Packed& p = *packed_;
  void* scratch = thread_scratch(kernel.scratchpad.get_size());
  for (std::size_t slab = 0; slab < p.weights.size(); ++slab) {
    const std::size_t of_x = p.options.slabs.in > 1 ? slab : 0;
    const std::size_t of_y = p.options.slabs.out > 1 ? slab : 0;
    auto* from = static_cast<std::byte*>(const_cast<void*>(x)) + of_x * kernel.source.get_size();
    auto* to = static_cast<std::byte*>(y) + of_y * kernel.target.get_size();
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(kernel.source, cpu_engine(), from)},
        {DNNL_ARG_WEIGHTS, p.weights[slab]},
        {DNNL_ARG_DST, memory(kernel.target, cpu_engine(), to)},
        {DNNL_ARG_SCRATCHPAD, memory(kernel.scratchpad, cpu_engine(), scratch)}};
    if (!p.biases.empty() && of_x == 0) arguments.emplace(DNNL_ARG_BIAS, p.biases[slab]);
    (of_x == 0 ? kernel.first : kernel.next).run(arguments);
    p.activate_rest(kernel, to);
  }
}

void PackedLinear::multiply_parts(const Kernel& kernel, const void* x, void* y) const {
  const Packed& p = *packed_;
  const std::size_t bytes = element_size(p.written(kernel.output));
  parallel_for(static_cast<int>(kernel.parts.size()), std::ssize(kernel.parts), [&](Index number) {
    const Kernel::Part& part = kernel.parts[static_cast<std::size_t>(number)];
    auto* to = static_cast<std::byte*>(y) + static_cast<std::size_t>(part.first_column) * bytes;
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(kernel.source, cpu_engine(), const_cast<void*>(x))},
        {DNNL_ARG_WEIGHTS, part.weights},
        {DNNL_ARG_DST, memory(part.target, cpu_engine(), to)},
        {DNNL_ARG_SCRATCHPAD,
         memory(part.scratchpad, cpu_engine(), thread_scratch(part.scratchpad.get_size()))}};
    if (!p.biases.empty()) arguments.emplace(DNNL_ARG_BIAS, part.bias);
    part.product.run(arguments);
  });
  p.activate_rest(kernel, y);
}

const std::string& PackedLinear::implementation(const Kernel& kernel) const {
  return kernel.implementation;
}

void PackedLinear::execute_int8(const Kernel& kernel, const void* x, void* y) const {
  const Packed& p = *packed_;
  const Index rows = kernel.computed_rows;
  thread_local std::vector<std::uint8_t> numbers;
  thread_local std::vector<std::int32_t> sums, zeros;
  thread_local std::vector<float> scales;
  numbers.resize(at(rows * p.in));
  sums.resize(at(rows * p.out));
  scales.resize(at(rows));
  zeros.resize(at(rows));
  // Threads of the loops below have others of these.
  const Int8Rows all = {.numbers = numbers.data(), .scales = scales.data(), .zeros = zeros.data()};
  std::int32_t* all_sums = sums.data();
  const auto row_of = [](auto* matrix, Index row, Index columns, DType dtype) {
    return matrix + at(row * columns) * element_size(dtype);
  };
  const auto for_rows = [&](const auto& body) {
    if (kernel.threads == 1) return body(Index{0}, rows);
    const Index share = (rows + kernel.threads - 1) / kernel.threads;
    parallel_for(kernel.threads, (rows + share - 1) / share,
                 [&](Index i) { body(i * share, std::min(share, rows - i * share)); });
  };
  for_rows([&](Index first, Index count) {
    quantize_rows(row_of(static_cast<const std::byte*>(x), first, p.in, p.options.dtype),
                  p.options.dtype, count, p.in,
                  {.numbers = all.numbers + first * p.in,
                   .scales = all.scales + first,
                   .zeros = all.zeros + first});
  });
  multiply(kernel, all.numbers, all_sums);
  for_rows([&](Index first, Index count) {
    finish_rows({.sums = all_sums + first * p.out,
                 .rows = count,
                 .columns = p.out,
                 .row_scales = all.scales + first,
                 .zeros = all.zeros + first,
                 .column_scales = p.scales.data<float>(),
                 .column_sums = static_cast<const std::int32_t*>(p.number_sums.raw()),
                 .bias = p.bias_storage.empty() ? nullptr : p.bias_storage.data<float>(),
                 .activation = p.additions.empty() ? p.options.activation : std::nullopt},
                row_of(static_cast<std::byte*>(y), first, p.out, kernel.output), kernel.output);
  });
}

void PackedLinear::execute(const Kernel& kernel, const void* x, void* y) const {
  const Packed& p = *packed_;
  if (p.compute == DType::i8) return execute_int8(kernel, x, y);
  thread_local std::vector<float> wide_x, wide_y;
  const void* source = x;
  void* target = y;
  const bool widen = p.options.dtype != p.compute;
  const bool narrow = p.compute == DType::f32 && kernel.output == DType::bf16;
  if (widen) {
    const auto* values = static_cast<const BFloat16*>(x);
    wide_x.resize(static_cast<std::size_t>(kernel.computed_rows * p.in));
    std::transform(values, values + wide_x.size(), wide_x.begin(),
                   [](BFloat16 value) { return static_cast<float>(value); });
    source = wide_x.data();
  }
  if (narrow) {
    wide_y.resize(static_cast<std::size_t>(kernel.computed_rows * p.out));
    target = wide_y.data();
  }
  if (kernel.parts.empty()) {
    multiply(kernel, source, target);
  } else {
    multiply_parts(kernel, source, target);
  }
  if (narrow) {
    std::transform(wide_y.begin(), wide_y.end(), static_cast<BFloat16*>(y),
                   [](float value) { return BFloat16(value); });
  }
}

}  // namespace longformer::kernels
