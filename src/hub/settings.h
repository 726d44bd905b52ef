// The user's settings for the Hub, from the environment variables of huggingface_hub.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace longformer::hub {

/// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub in HF_HOME, else huggingface/hub in
/// XDG_CACHE_HOME or ~/.cache. A leading ~, $NAME and ${NAME} are replaced.
std::filesystem::path cache_folder();

/// HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE: nothing may be fetched.
bool is_offline();

/// HF_ENDPOINT without a slash at its end, else https://huggingface.co. Throws Error for another
/// thing than an address.
std::string endpoint();

/// An address for messages: without the name and the password that may stand before its host.
std::string without_password(std::string_view address);

/// HF_HUB_DOWNLOAD_TIMEOUT, else 10 s: how long nothing may come.
std::chrono::seconds patience();

/// The token for this address: HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the file HF_TOKEN_PATH, else
/// token in HF_HOME (not with HF_HUB_DISABLE_IMPLICIT_TOKEN). Empty for none, and for an address
/// without TLS on another machine, to which no token goes. Throws Error for a token that no header
/// can hold.
std::string token_for(const std::string& endpoint);

/// Whether an address has TLS or is on this machine.
bool is_private(const std::string& endpoint);

}  // namespace longformer::hub
