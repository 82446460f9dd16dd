// Everything a program needs that does not use Asio; for Asio add <cordma/runtime/asio.hpp>.
#pragma once

#include <cordma/net/buffer_pool.hpp>
#include <cordma/net/connect.hpp>
#include <cordma/net/context.hpp>
#include <cordma/net/datagram.hpp>
#include <cordma/net/device_event.hpp>
#include <cordma/net/device_list.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/net/exchange.hpp>
#include <cordma/net/listener.hpp>
#include <cordma/net/memory.hpp>
#include <cordma/net/memory_window.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/receive_credits.hpp>
#include <cordma/net/remote_sync_event.hpp>
#include <cordma/net/request_session.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/shared_receive.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/net/sync_event.hpp>
#include <cordma/net/typed_endpoint.hpp>
#include <cordma/net/worker.hpp>
#include <cordma/runtime/operation.hpp>
#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/result.hpp>
#include <cordma/runtime/task.hpp>
