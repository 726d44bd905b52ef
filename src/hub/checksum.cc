#include "hub/checksum.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "core/error.h"
#include "core/loaded_library.h"

namespace longformer::hub {
namespace {

/// The functions of libcrypto that are used.
struct Crypto {
  decltype(&::EVP_MD_CTX_new) new_context = nullptr;
  decltype(&::EVP_MD_CTX_free) free_context = nullptr;
  decltype(&::EVP_get_digestbyname) digest = nullptr;
  decltype(&::EVP_DigestInit_ex) begin = nullptr;
  decltype(&::EVP_DigestUpdate) update = nullptr;
  decltype(&::EVP_DigestFinal_ex) finish = nullptr;
};

Crypto loaded_crypto() {
  // Versions 3 and 1.1 have these functions alike.
  const LoadedLibrary library({"fetching", "OpenSSL's libcrypto", "libssl3"},
                              std::array{"libcrypto.so.3", "libcrypto.so.1.1"});
  Crypto crypto;
  library.find("EVP_MD_CTX_new", crypto.new_context);
  library.find("EVP_MD_CTX_free", crypto.free_context);
  library.find("EVP_get_digestbyname", crypto.digest);
  library.find("EVP_DigestInit_ex", crypto.begin);
  library.find("EVP_DigestUpdate", crypto.update);
  library.find("EVP_DigestFinal_ex", crypto.finish);
  return crypto;
}

const Crypto& crypto() {
  static const Crypto library = loaded_crypto();
  return library;
}

/// A machine may forbid SHA-1 by its policy.
void check_crypto(int result) { require(result == 1, "libcrypto computes no such checksum"); }

}  // namespace

void Checksum::End::operator()(evp_md_ctx_st* context) const { crypto().free_context(context); }

Checksum::Checksum(Kind kind) : context_(crypto().new_context()) {
  const EVP_MD* digest = crypto().digest(kind == Kind::sha1 ? "SHA1" : "SHA256");
  check_crypto(context_ != nullptr && digest != nullptr ? 1 : 0);
  check_crypto(crypto().begin(context_.get(), digest, nullptr));
}

Checksum Checksum::of_file(std::size_t digits, std::int64_t size) {
  constexpr std::size_t kGitDigits = 40;
  if (digits != kGitDigits) return Checksum(Kind::sha256);
  Checksum sum(Kind::sha1);
  sum.add(fmt::format("blob {}", size));
  sum.add(std::string_view("\0", 1));
  return sum;
}

void Checksum::add(std::string_view bytes) {
  check_crypto(crypto().update(context_.get(), bytes.data(), bytes.size()));
}

std::string Checksum::hexadecimal() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum = {};
  unsigned int size = 0;
  check_crypto(crypto().finish(context_.get(), sum.data(), &size));
  std::string digits;
  for (unsigned int i = 0; i < size; ++i) digits += fmt::format("{:02x}", sum[i]);
  return digits;
}

}  // namespace longformer::hub
