//! Authorities that kubelets send: frames of a client that writes what no client library here would.

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;
use crate::kubelet::hpack::tests::huffman;

/// A text that is not compressed.
fn plain(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 0x7f);
    [&[length], text.as_bytes()].concat()
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A call without a message's fields, of the header `block`.
fn call(stream: u8, block: &[u8]) -> Vec<u8> {
    [frame(1, 4, stream, block), frame(0, 1, stream, &[0; 5])].concat()
}

/// Reads frames until the data of `stream`, which are one message.
async fn answer(from: &mut UnixStream, stream: u8) -> PluginInfo {
    loop {
        let mut head = [0; 9];
        from.read_exact(&mut head).await.unwrap();
        let [high, middle, low, kind, _, .., of] = head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        from.read_exact(&mut payload).await.unwrap();
        assert!(![3, 7].contains(&kind), "an error instead of an answer: {head:?} {payload:?}");
        if (kind, of) == (0, stream) {
            return PluginInfo::decode(&payload[5..]).unwrap();
        }
    }
}

#[tokio::test]
async fn every_authority_that_a_kubelet_sends_is_answered() {
    let node = KubeletNode::new("authority");
    let agent = node.agent(None).await;
    let path = "/var/lib/kubelet/plugins_registry/gpu.divvy.dev-reg.sock";
    let escaped = path.replace('/', "%2F");
    for authority in [None, Some("localhost"), Some(path), Some(&*escaped)] {
        for write in [|text: &str| plain(text), |text: &str| huffman(text.as_bytes())] {
            let mut stream = UnixStream::connect(&agent.sockets.registration).await.unwrap();
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
            stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
            // Method and scheme of the static table; then entries for the dynamic one.
            let mut block = vec![0x83, 0x86];
            block.extend([&[0x44], &*write("/pluginregistration.Registration/GetInfo")].concat());
            if let Some(authority) = authority {
                block.extend([&[0x41], &*write(authority)].concat());
            }
            block.extend([&[0x5f], &*write("application/grpc")].concat());
            block.extend([&[0x40], &*write("te"), &*write("trailers")].concat());
            stream.write_all(&call(1, &block)).await.unwrap();
            assert_eq!(answer(&mut stream, 1).await.name, DRIVER, "{authority:?}");
            // By the dynamic table alone, whose size is the same for both.
            let last = if authority.is_some() { 0xc1 } else { 0xc0 };
            let block: Vec<u8> = [0x83, 0x86].into_iter().chain((0xbe..=last).rev()).collect();
            stream.write_all(&call(3, &block)).await.unwrap();
            assert_eq!(answer(&mut stream, 3).await.name, DRIVER, "{authority:?}");
        }
    }
    agent.terminate().await;
}
